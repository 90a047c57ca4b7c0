"""Sum up how much of each node's resources the cluster's pods use, pod by pod.

Two usages can be added, so two processes can each sum up a part of the pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from distrain import kube
from distrain.kube.pod_status import ENDED
from distrain.kube.quantities import Units, add
from distrain.pods.counted_pod import CountedPod, Kind
from distrain.pods.pod_requests import held
from distrain.scheduler.affinity_terms import AffinityTerm, required_terms
from distrain.scheduler.constraints import JobConstraints
from distrain.scheduler.existing_pods import ExistingPods, add_nominated, add_running
from distrain.scheduler.node_ports import UsedPort, host_ports
from distrain.scheduler.node_volume_limits import Attached, CsiVolume
from distrain.scheduler.volume_restrictions import ClaimName, claims_of
from distrain.workload.chart_objects import instance_of

# Used in place of a node's name to mean every node.
EVERYWHERE = ""


class Usage(Struct):
    """What the cluster's pods use on each node: requests, host ports, volumes and exclusive claims.

    `volumes` are the volumes of running pods. `reserved` are the volumes of nominated pods and of VolumeAttachments.
    `freed` are the volumes that the release's own pods use. These pods are treated as if they had ended. `claims` are
    exclusive claims (ReadWriteOncePod) in use. The claim of a pod that already has a node counts as in use on every
    node, under the key EVERYWHERE. The claim of a nominated pod counts as in use only on the node for which the pod is
    nominated. `between` counts the nominated pods whose priority is between the priorities of the job's pods.
    `existing` has, for each role, the pods that matter for its constraints.
    """

    requests: dict[str, Units] = field(default_factory=dict)
    ports: dict[str, set[UsedPort]] = field(default_factory=dict)
    claims: dict[str, set[ClaimName]] = field(default_factory=dict)
    volumes: dict[str, set[CsiVolume]] = field(default_factory=dict)
    reserved: dict[str, set[CsiVolume]] = field(default_factory=dict)
    freed: set[CsiVolume] = field(default_factory=set)
    existing: dict[str, ExistingPods] = field(default_factory=dict)
    between: int = 0

    def of(self, role: str) -> ExistingPods:
        """Return the existing pods that affect the pods of this role."""
        return self.existing.setdefault(role, ExistingPods())

    def attached(self, node: str) -> Attached:
        """Return the volumes that are attached to the node or reserved for it."""
        return Attached(self.volumes.get(node, set()), self.reserved.get(node, set()) - self.freed)


class PodCounts(Struct):
    """Numbers of pods that the report shows.

    `pending` is the number of pods that wait for a node. `lower` is the number of pods that have a lower priority than
    the job.
    """

    pending: int = 0
    lower: int = 0


class ClusterUsage(Struct):
    """The usage by all pods, and by the pods that stay after all others have ended (DaemonSet pods and static pods)."""

    taken: Usage = field(default_factory=Usage)
    staying: Usage = field(default_factory=Usage)
    counts: PodCounts = field(default_factory=PodCounts)

    def __add__(self, other: ClusterUsage) -> ClusterUsage:
        """Return the sum of two usages; both remain unchanged."""
        total: ClusterUsage = _joined(self, other)
        return total


def usage_of(
    nodes: Iterable[kube.Node], pods: Iterable[CountedPod], job: JobConstraints, release: str | None = None
) -> ClusterUsage:
    """Sum up what pods use on each node, as far as it matters for a job with these constraints.

    Treat the pods of `release` as if they had ended. A pod that has ended uses nothing. If a pending pod is nominated
    for a node, it already uses that node, because the scheduler places it first. A nominated pod does not use the node
    if its priority is lower than the job's. All other pending pods are only counted for the report, because the
    scheduler may place them before the job's pods. No pod is kept in memory.
    """
    adding = _Adding(job, {node.metadata.name: node for node in nodes})
    # Most pods of a node are of the same kind. So compute what depends on the kind only once for all of them.
    alike: Counter[tuple[str, Kind]] = Counter()
    for pod in pods:
        node, kind = pod.node_name, pod.kind
        if release and _is_own(pod, job.namespace, release):
            adding.usage.taken.freed |= job.attach_limits.volumes_of(pod)
            continue
        alike[node, kind] += 1
        if adding.reads_each_pod or kind.anti_affinity:
            adding.add_constrained(pod, kind)
    for (node, kind), number in alike.items():
        adding.add(node, kind, number)
    return adding.usage


class _Adding:
    """Adds pods to a ClusterUsage. It reads from each pod only what the job's constraints need.

    `reads_each_pod` is true if the job's constraints may treat two pods of the same kind on the same node differently.
    """

    def __init__(self, job: JobConstraints, nodes: Mapping[str, kube.Node]) -> None:
        self.usage = ClusterUsage()
        self._job, self._nodes = job, nodes
        self._roles = list(job.roles.values())
        self._asks_for_ports = any(role.ports for role in self._roles)
        self._has_constraints = any(role.keys for role in self._roles)
        self._limits = job.attach_limits
        self._limited_nodes = frozenset().union(*self._limits.limits.values())
        self.reads_each_pod = self._has_constraints or bool(job.exclusive_claims or self._limited_nodes)
        self.usage.taken.reserved.update({node: {*volumes} for node, volumes in self._limits.attachments.items()})

    def add(self, node: str, kind: Kind, number: int) -> None:
        """Add a number of pods of a kind on a node; `node` is empty for pending pods."""
        counts, is_lower = self.usage.counts, kind.priority < self._job.priorities[1]
        if kind.phase in ENDED:
            return
        counts.lower += number if node and is_lower else 0
        name = self._place(node, kind)
        counts.pending += 0 if name else number
        for usage in self._into(name, kind):
            add(usage.requests.setdefault(name, {}), held(kind), number)
            usage.between += number if is_lower and not node else 0
            if self._asks_for_ports and (ports := host_ports(kind)):
                usage.ports.setdefault(name, set()).update(ports)

    def add_constrained(self, pod: CountedPod, kind: Kind) -> None:
        """Add a pod's effect on the job's exclusive claims, its volumes, and its constraints about other pods."""
        name = self._place(pod.node_name, kind)
        for usage in self._into(name, kind):
            if self._job.exclusive_claims:
                names = ((pod.namespace, name) for name in claims_of(pod.volumes))
                used = self._job.exclusive_claims.intersection(names)
                usage.claims.setdefault(EVERYWHERE if pod.node_name else name, set()).update(used)
            if name in self._limited_nodes and (volumes := self._limits.volumes_of(pod)):
                (usage.volumes if pod.node_name else usage.reserved).setdefault(name, set()).update(volumes)
            if self._has_constraints or kind.anti_affinity:
                self._add_existing(
                    usage, pod, required_terms(kind.anti_affinity, pod.namespace, pod.labels), self._nodes[name]
                )

    def _place(self, node: str, kind: Kind) -> str:
        """Return the node that a pod uses: its own node, or the node for which it is nominated.

        Return an empty text otherwise.
        """
        goes_first = kind.priority >= self._job.priorities[0]
        return node or (kind.nominated_node_name if goes_first else None) or ""

    def _into(self, name: str, kind: Kind) -> Sequence[Usage]:
        if kind.phase in ENDED or name not in self._nodes:
            return ()
        return (self.usage.taken, self.usage.staying) if kind.stays else (self.usage.taken,)

    def _add_existing(self, usage: Usage, pod: CountedPod, anti: Sequence[AffinityTerm], node: kube.Node) -> None:
        add_pod = add_running if pod.node_name else add_nominated
        for role in self._roles:
            if anti or role.keys:
                add_pod(usage.of(role.role.name), self._job, role, pod, node, anti)


def _is_own(pod: CountedPod, namespace: str, release: str) -> bool:
    """Tell whether the pod belongs to the release and is not being deleted.

    A pod that is being deleted still uses its node.
    """
    if pod.namespace != namespace or pod.is_leaving:
        return False
    return instance_of(pod.labels) == release


def _joined(one: Any, other: Any) -> Any:
    """Return the sum of two parts: add numbers, unite sets, and join dicts and structs entry by entry."""
    if isinstance(one, int | Counter):
        return one + other
    if isinstance(one, set):
        return one | other
    if isinstance(one, dict):
        return {**one, **{key: _joined(one[key], more) if key in one else more for key, more in other.items()}}
    return type(one)(**{name: _joined(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__})
