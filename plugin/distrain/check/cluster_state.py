"""Hold a cluster's nodes and their usage by pods, and convert both to the solver's terms for one job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.kube.quantities import Units, allocatable
from distrain.pods.counted_pod import CountedPod
from distrain.scheduler import inter_pod_affinity, pod_topology_spread, volume_binding
from distrain.scheduler.constraints import JobConstraints, RoleConstraints
from distrain.scheduler.messages import IN_USE, TOO_MANY_VOLUMES
from distrain.scheduler.node_filters import first_refusal, recovered
from distrain.scheduler.node_usage import EVERYWHERE, ClusterUsage, PodCounts, Usage, usage_of
from distrain.scheduler.volume_restrictions import ClaimName, claims_of
from distrain.solver import capacity
from distrain.solver.capacity import Judgement
from distrain.solver.problem import Node, Role
from distrain.workload.manifest import Job, PodRole

# A function that reads all pods of the cluster or of a file, and passes them to another function. It returns what the
# other function returns.
OverPods = Callable[[Callable[[Iterable[CountedPod]], ClusterUsage]], ClusterUsage]


class ClusterState(Struct, frozen=True):
    """The nodes and how much of them is in use.

    `taken` is the usage by all pods. `staying` is the usage by DaemonSet and static pods only, which stay on their
    nodes after all other pods have ended.
    """

    nodes: Sequence[kube.Node]
    taken: Usage
    staying: Usage
    constraints: JobConstraints
    counts: PodCounts = field(default_factory=PodCounts)
    _free: list[Node] = field(default_factory=list)
    _roles: dict[str, Role] = field(default_factory=dict)

    def emptied(self) -> ClusterState:
        """Return the cluster with only DaemonSet and static pods on it, and with all nodes healthy and not cordoned."""
        return ClusterState([recovered(node) for node in self.nodes], self.staying, self.staying, self.constraints)

    def free(self) -> list[Node]:
        """Return the nodes with their free resources, ports and volumes, and the labels that the constraints name."""
        if not self._free:
            ports, limits, keys = self.constraints.ports, self.constraints.attach_limits, self.constraints.keys
            for node in self.nodes:
                name = node.metadata.name
                labels = {key: value for key, value in (node.metadata.labels or {}).items() if key in keys}
                free = {**self._left(node), **ports.free(self.taken.ports.get(name, ()))}
                self._free.append(Node(name, {**free, **limits.free(name, self.taken.attached(name))}, labels))
        return self._free

    def role(self, role: PodRole) -> Role:
        """Return the role with the nodes that admit its pods, and with its constraints about the job's own pods."""
        constraints = self.constraints.roles[role.name]
        if role.name not in self._roles:
            self._roles[role.name] = self._solvers_role(constraints)
        ports = self.constraints.ports.request(constraints.ports)
        volumes = self.constraints.attach_limits.request(role.name)
        return replace(self._roles[role.name], count=role.replicas, request={**role.request, **ports, **volumes})

    def contested_drivers(self) -> list[str]:
        """Return the CSI drivers whose attach limit lets more or fewer pods fit, depending on the order of the pods."""
        limits = self.constraints.attach_limits
        found = {
            driver
            for role in self.constraints.roles.values()
            for node in (self.role(role.role).nodes if limits.limits else ())
            for driver in limits.contested(node, self.taken.attached(node))
        }
        return sorted(found)

    def refusal(self, node: kube.Node, role: PodRole) -> str | None:
        """Return the message of the first filter that refuses the node, or None. Skip NodeResourcesFit."""
        return first_refusal(node, role.spec) or next(iter(self.later_refusals([node], role)), None)

    def later_refusals(self, nodes: Iterable[kube.Node], role: PodRole) -> Iterator[str | None]:
        """For each node, yield the message of the first filter after NodeResourcesFit that refuses the node."""
        constraints = self.constraints.roles[role.name]
        refused = inter_pod_affinity.refused(self.taken.of(role.name), constraints, self._by_name())
        used = {where for where, claims in self.taken.claims.items() if any(_uses(role, name) for name in claims)}
        for node in nodes:
            yield (
                (IN_USE if used & {EVERYWHERE, node.metadata.name} else None)
                or self._too_many_volumes(node.metadata.name, role)
                or volume_binding.refusal(node, constraints.volumes)
                or pod_topology_spread.refusal(node, constraints)
                or refused.message(node)
            )

    def _too_many_volumes(self, node: str, role: PodRole) -> str | None:
        limits = self.constraints.attach_limits
        is_exceeded = limits.limits and limits.is_exceeded(role.name, node, self.taken.attached(node))
        return TOO_MANY_VOLUMES if is_exceeded else None

    def _solvers_role(self, constraints: RoleConstraints) -> Role:
        role, nodes, existing = constraints.role, self._by_name(), self.taken.of(constraints.role.name)
        taking = [node for node in self.nodes if first_refusal(node, role.spec) is None]
        later = self.later_refusals(taking, role)
        admitting = [node.metadata.name for node, cause in zip(taking, later, strict=True) if cause is None]
        affinity = inter_pod_affinity.affinity(existing, constraints, self.constraints, nodes)
        return Role(
            role.name,
            role.replicas,
            role.request,
            frozenset(admitting),
            affinity=affinity or constraints.beside,
            anti_affinity=inter_pod_affinity.anti_affinity(constraints, self.constraints),
            spread=pod_topology_spread.spread(existing, constraints, self.constraints, nodes),
        )

    def _by_name(self) -> Mapping[str, kube.Node]:
        return {node.metadata.name: node for node in self.nodes}

    def _left(self, node: kube.Node) -> Units:
        free = allocatable(node)
        for resource, amount in self.taken.requests.get(node.metadata.name, {}).items():
            free[resource] = free.get(resource, 0) - amount
        return free


def _uses(role: PodRole, claim: ClaimName) -> bool:
    namespace, name = claim
    of_set = any(name in names for names in role.claims_of_set.values())
    return namespace == role.namespace and (of_set or name in claims_of(role.spec.volumes))


def take(
    nodes: Sequence[kube.Node], over_pods: OverPods, constraints: JobConstraints, release: str | None = None
) -> ClusterState:
    """Sum up the usage of the nodes for a job with these constraints, as if the pods of `release` had ended."""
    usage = over_pods(lambda pods: usage_of(nodes, pods, constraints, release))
    return ClusterState(nodes, usage.taken, usage.staying, constraints, usage.counts)


def over(pods: Iterable[CountedPod]) -> OverPods:
    """Return a function of type OverPods for pods that are already known.

    An OverPods function has one argument, a function that computes the usage of pods. The returned function calls its
    argument with `pods`, and does not read any pods from the cluster.
    """
    return lambda use: use(pods)


def judge(job: Job, state: ClusterState) -> Judgement:
    """Judge how many of the job's main pods fit, in the worst and in the best case."""
    roles = {role.name: state.role(role) for role in job.roles}
    return capacity.judge(state.free(), list(roles.values()), roles[job.main.name])
