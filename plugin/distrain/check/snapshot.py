"""What the cluster's nodes hold, summed up from its nodes and pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distrain import kube
from distrain.amounts import Units, all_units, pod_request
from distrain.check.admission import recovered, refusal
from distrain.check.problem import Node, Role
from distrain.job import CHART, INSTANCE_LABEL, NAME_LABEL, ROLE_LABEL, PodRole

STATIC_POD = "kubernetes.io/config.mirror"
# The role of the pod that asks, where the check runs as a hook of the chart: it is gone before the job is there.
PREFLIGHT = "preflight"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The nodes, and per node what its pods take: all of them, and those that stay whatever ends.

    `pending` counts pods that wait for a node, `repelling` those whose own rules may keep ours off theirs, and `own`
    the run's own pods, whose room counts as free.
    """

    nodes: Sequence[kube.Node]
    taken: dict[str, Units]
    staying: dict[str, Units]
    pending: int = 0
    repelling: int = 0
    own: int = 0

    def emptied(self) -> Snapshot:
        """Return the cluster with only DaemonSets' and static pods on it, all nodes healthy and none cordoned."""
        return Snapshot([recovered(node) for node in self.nodes], self.staying, self.staying)

    def free(self) -> list[Node]:
        return [Node(node.metadata.name, self._free(node)) for node in self.nodes]

    def role(self, role: PodRole) -> Role:
        """Return the role with the nodes that admit its pods."""
        admitting = frozenset(node.metadata.name for node in self.nodes if refusal(node, role.spec) is None)
        return Role(role.name, role.replicas, role.request, admitting)

    def _free(self, node: kube.Node) -> Units:
        free = all_units(node.status.allocatable)
        for resource, amount in self.taken.get(node.metadata.name, {}).items():
            free[resource] = free.get(resource, 0) - amount
        return free


def take(nodes: Iterable[kube.Node], pods: Iterable[kube.Pod], namespace: str, release: str | None = None) -> Snapshot:
    """Sum up the pods that take room on a node, for a job in this namespace, of this release if it runs already.

    A pod that has ended takes none. One that waits with a node nominated for it takes its room there already: the
    scheduler lets it go first. Other waiting pods are counted, since they may take room before ours.
    """
    taken: dict[str, Units] = {}
    staying: dict[str, Units] = {}
    pending = repelling = own = 0
    for pod in pods:
        node = pod.spec.node_name or pod.status.nominated_node_name
        if pod.status.phase in ("Succeeded", "Failed"):
            continue
        if release and _is_own(pod, namespace, release):
            own += bool(node) and (pod.metadata.labels or {}).get(ROLE_LABEL) != PREFLIGHT
            continue
        if not node:
            pending += 1
            continue
        repelling += _repels(pod, namespace)
        request = pod_request(pod)
        _add(taken.setdefault(node, {}), request)
        if _stays(pod):
            _add(staying.setdefault(node, {}), request)
    return Snapshot(list(nodes), taken, staying, pending, repelling, own)


def _is_own(pod: kube.Pod, namespace: str, release: str) -> bool:
    """Tell whether the pod stays, or makes room, as the job of the release changes; one that is leaving still holds."""
    labels = pod.metadata.labels or {}
    ours = (labels.get(NAME_LABEL), labels.get(INSTANCE_LABEL)) == (CHART, release)
    return ours and pod.metadata.namespace == namespace and pod.metadata.deletion_timestamp is None


def _stays(pod: kube.Pod) -> bool:
    owners = pod.metadata.owner_references or ()
    return STATIC_POD in (pod.metadata.annotations or {}) or any(owner.kind == "DaemonSet" for owner in owners)


def _repels(pod: kube.Pod, namespace: str) -> bool:
    """Tell whether the pod has a required anti-affinity that may be meant for pods of this namespace."""
    rules = (pod.spec.affinity and pod.spec.affinity.pod_anti_affinity) or kube.PodAffinity()
    for term in rules.required or ():
        if term.namespace_selector is not None or namespace in (term.namespaces or [pod.metadata.namespace]):
            return True
    return False


def _add(total: Units, more: Units) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount
