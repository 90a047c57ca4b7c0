"""Measure how many workers fit on a cluster's nodes before the size of a worker is derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.check.cluster_state import ClusterState, OverPods, judge, take
from distrain.derive.room import CORE, GIBIBYTE, rounded
from distrain.derive.split import MOST_WORKERS, Split
from distrain.kube.quantities import Units, allocatable_of, text
from distrain.scheduler.constraints import constraints_of
from distrain.workload.manifest import MASTER, WORKER, Job, PodRole


class MeasuredNodes(Struct, frozen=True):
    """A cluster's nodes and their free capacity.

    `job` gives the scheduling rules of the workers. The size of the job's workers is ignored, because this size is
    derived later.
    """

    state: ClusterState
    job: Job
    gpu_resource: str
    _most: dict[tuple[bool, int], int] = field(default_factory=dict)

    @property
    def largest(self) -> int:
        nodes = _offers(self.state.emptied(), self.job.main, self.gpu_resource)
        return max((free.get(self.gpu_resource, 0) for _, free in nodes), default=0)

    def fits(self, split: Split) -> bool:
        return split.replicas <= self._most_workers(split.gpus, is_emptied=False)

    def may_fit(self, split: Split) -> bool:
        return split.replicas <= self._most_workers(split.gpus, is_emptied=True)

    def share(self, split: Split) -> dict[str, str]:
        """Return a worker's share of its node's CPUs and memory, in proportion to its GPUs.

        The capacity that DaemonSets and the job's other pods use is subtracted first. The shares differ between nodes.
        The workers are assigned to the nodes with the largest shares. All workers must have the same size, so the
        smallest share on these nodes is returned. A resource is missing from the result if a worker's share of it would
        be 0.
        """
        state = self.state if self.fits(split) else self.state.emptied()
        amounts: Units = {}
        for resource, step in (("cpu", CORE), ("memory", GIBIBYTE)):
            amount = rounded(self._share_of(resource, split, state), step)
            request = {self.gpu_resource: split.gpus, **amounts, resource: amount}
            if amount and judge(sized(self.job, split, request), state).possible:
                amounts[resource] = amount
        return {resource: text(resource, amount) for resource, amount in amounts.items()}

    def _most_workers(self, gpus: int, *, is_emptied: bool) -> int:
        """Return how many workers with this number of GPUs fit on the nodes in addition to the job's other pods.

        Results are cached.
        """
        key = (is_emptied, gpus)
        if key not in self._most:
            state = self.state.emptied() if is_emptied else self.state
            job = sized(self.job, Split(MOST_WORKERS, gpus), {self.gpu_resource: gpus})
            most = judge(job, state).most
            self._most[key] = 0 if most is None else most + self.job.ranks_beside
        return self._most[key]

    def _share_of(self, resource: str, split: Split, state: ClusterState) -> int:
        beside = sum(role.request.get(resource, 0) * role.replicas for role in self.job.others if role.name != MASTER)
        always = dict(_offers(self.state.emptied(), self.job.main, self.gpu_resource))
        gpus_of = {node.metadata.name: allocatable_of(node, self.gpu_resource) for node in self.state.nodes}
        shares = []
        for name, free in _offers(state, self.job.main, self.gpu_resource):
            workers = free.get(self.gpu_resource, 0) // split.gpus
            if workers:
                part = (always[name].get(resource, 0) - beside) * split.gpus // gpus_of[name]
                shares += [min(part, (free.get(resource, 0) - beside) // workers)] * workers
        shares.sort(reverse=True)
        return shares[split.replicas - 1] if len(shares) >= split.replicas else 0


def sized(job: Job, split: Split, request: Units) -> Job:
    """Return the job with the number of workers in `split`, where each worker has this request."""

    def resized(role: PodRole) -> PodRole:
        if role.name not in (WORKER, MASTER):
            return role
        number = split.replicas - job.ranks_beside if role is job.main else role.replicas
        return replace(role, replicas=number, request={**role.request, **request})

    return replace(job, roles=tuple(resized(role) for role in job.roles))


def measured(
    nodes: Sequence[kube.Node],
    over_pods: OverPods,
    namespace: str,
    job: Job,
    gpu_resource: str,
    release: str | None = None,
) -> MeasuredNodes:
    """Return the nodes' free capacity for a job in this namespace, as if the pods of `release` had ended."""
    # `derive` renders the job without a cluster, so the job's namespace may be wrong and is replaced here.
    job = replace(job, roles=tuple(replace(role, namespace=namespace) for role in job.roles))
    return MeasuredNodes(take(nodes, over_pods, constraints_of(job, namespace), release), job, gpu_resource)


def measuring(
    nodes: Sequence[kube.Node], over_pods: OverPods, namespace: str
) -> Callable[[Callable[[], Job], str], MeasuredNodes]:
    """Return a function that measures these nodes for a given job; see `Measure` in complete.py."""
    return lambda render, gpu_resource: measured(nodes, over_pods, namespace, render(), gpu_resource)


def _offers(state: ClusterState, role: PodRole, gpu_resource: str) -> list[tuple[str, Units]]:
    """Return the name and the free resources of each node that admits the role's pods and has GPUs."""
    admitting = state.role(role).nodes
    free = [node for node in state.free() if node.name in admitting and gpu_resource in node.free]
    return [(node.name, dict(node.free)) for node in free]
