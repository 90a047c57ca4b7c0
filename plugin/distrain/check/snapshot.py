"""What the cluster's nodes hold, summed up from its nodes and pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distrain import kube, kube_pods
from distrain.amounts import Units, allocatable
from distrain.check import marks as other_pods
from distrain.check import volumes
from distrain.check.admission import recovered, refusal
from distrain.check.marks import Marks
from distrain.check.ports import HostPort, host_ports
from distrain.check.problem import Apart, Node, Role
from distrain.check.rules import JobRules, RoleRules, terms
from distrain.job import CHART, INSTANCE_LABEL, NAME_LABEL, ROLE_LABEL, PodRole
from distrain.pod_amounts import held

DAEMON_SET = "DaemonSet"
STATIC_POD = "kubernetes.io/config.mirror"
# The role of the pod that asks, where the check runs as a hook of the chart: it is gone before the job is there.
PREFLIGHT = "preflight"
ENDED = ("Succeeded", "Failed")
# In place of a node's name.
EVERYWHERE = ""


@dataclass(slots=True)
class Load:
    """What pods hold of each node, the claims that they use alone, and what they mean for each role of the job.

    A pod that is only nominated for a node uses its claims there alone, one that runs EVERYWHERE. `between` are
    nominated and go before some of the job's pods alone.
    """

    requests: dict[str, list[Mapping[str, int]]] = field(default_factory=dict)
    ports: dict[str, set[HostPort]] = field(default_factory=dict)
    claims: dict[str, set[str]] = field(default_factory=dict)
    marks: dict[str, Marks] = field(default_factory=dict)
    between: int = 0

    def total(self, node: str) -> Units:
        """Return the sum of what pods take of a node: most of a cluster's ask for the very same as others."""
        requests = self.requests.get(node, ())
        counts, total = Counter(map(id, requests)), Units()
        for number, request in {id(request): request for request in requests}.items():
            _add(total, request, counts[number])
        return total

    def of(self, role: str) -> Marks:
        return self.marks.setdefault(role, Marks())


@dataclass(slots=True)
class Counts:
    """Pods that the verdict rests on without judging them.

    `pending` wait for a node, and `lower` have a lower priority than the job's. `own` are the run's own, whose room
    counts as free: they ask for `own_request`.
    """

    pending: int = 0
    lower: int = 0
    own: int = 0
    own_request: Units = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The nodes, and what pods take of them: all pods, and those that stay whatever ends."""

    nodes: Sequence[kube.Node]
    taken: Load
    staying: Load
    rules: JobRules
    counts: Counts = field(default_factory=Counts)
    _free: list[Node] = field(default_factory=list, compare=False)
    _roles: dict[str, Role] = field(default_factory=dict, compare=False)

    def emptied(self) -> Snapshot:
        """Return the cluster with only DaemonSets' and static pods on it, all nodes healthy and none cordoned."""
        return Snapshot([recovered(node) for node in self.nodes], self.staying, self.staying, self.rules)

    def free(self) -> list[Node]:
        if not self._free:
            ports = self.rules.ports
            keys = self.rules.keys
            self._free.extend(
                Node(
                    node.metadata.name,
                    {**self._left(node), **ports.free(self.taken.ports.get(node.metadata.name, ()))},
                    {key: value for key, value in (node.metadata.labels or {}).items() if key in keys},
                )
                for node in self.nodes
            )
        return self._free

    def role(self, role: PodRole) -> Role:
        """Return the role with the nodes that admit its pods, and its rules about the job's own pods."""
        if role.name not in self._roles:
            self._roles[role.name] = self._judged(self.rules.roles[role.name])
        found = self._roles[role.name]
        ports = self.rules.ports.request(self.rules.roles[role.name].ports)
        return replace(found, count=role.replicas, request={**role.request, **ports})

    def refusal(self, node: kube.Node, role: PodRole) -> str | None:
        """Return the scheduler's words for why the node takes no pod of the role, its room aside, None when it does."""
        return refusal(node, role.spec) or next(iter(self.late_refusals([node], role)), None)

    def late_refusals(self, nodes: Iterable[kube.Node], role: PodRole) -> Iterator[str | None]:
        """Yield, for each node, the words of the filters that the scheduler asks after the one about room."""
        rules = self.rules.roles[role.name]
        settled = other_pods.settle(self.taken.of(role.name), rules, self._by_name())
        own, in_use = _claims(role.spec.volumes), self.taken.claims
        for node in nodes:
            used = any(own & in_use.get(where, set()) for where in (EVERYWHERE, node.metadata.name))
            yield ((volumes.IN_USE if used else None) or volumes.refusal(node, rules.volumes) or settled.refusal(node))

    def _judged(self, rules: RoleRules) -> Role:
        role, nodes, marks = rules.role, self._by_name(), self.taken.of(rules.role.name)
        late = self.late_refusals(self.nodes, role)
        admitting = [
            node.metadata.name
            for node, cause in zip(self.nodes, late, strict=True)
            if cause is None and refusal(node, role.spec) is None
        ]
        return Role(
            role.name,
            role.replicas,
            role.request,
            frozenset(admitting),
            near=other_pods.near(marks, rules, self.rules, nodes) or rules.beside,
            apart=_apart(rules, self.rules),
            spread=other_pods.spread(marks, rules, self.rules, nodes),
        )

    def _by_name(self) -> Mapping[str, kube.Node]:
        return {node.metadata.name: node for node in self.nodes}

    def _left(self, node: kube.Node) -> Units:
        free = allocatable(node)
        for resource, amount in self.taken.total(node.metadata.name).items():
            free[resource] = free.get(resource, 0) - amount
        return free


def take(
    nodes: Iterable[kube.Node], pods: Iterable[kube_pods.CountedPod], rules: JobRules, release: str | None = None
) -> Snapshot:
    """Sum up what the pods take, for a job with these rules, of this release if it runs already.

    A pod that has ended takes nothing. One that waits with a node nominated for it takes its room there already,
    unless its priority is lower: the scheduler lets it go first. Other waiting pods are counted, since they may take
    room before ours. No pod is kept.
    """
    found = list(nodes)
    taken, staying, counts = Load(), Load(), Counts()
    loading = _Loading(rules, {node.metadata.name: node for node in found}, taken, staying)
    for pod in pods:
        name = pod.spec.node_name or pod.status.nominated_node_name
        if pod.status.phase in ENDED:
            continue
        if release and _is_own(pod, rules.namespace, release):
            _count_own(counts, pod, bool(name))
            continue
        has_node, priority = bool(pod.spec.node_name), pod.spec.priority or 0
        counts.lower += has_node and priority < rules.priorities[1]
        if not name or (not has_node and priority < rules.priorities[0]):
            counts.pending += 1
        elif name in loading.nodes:
            loading.add(pod, name)
    return Snapshot(found, taken, staying, rules, counts)


class _Loading:
    """Adds pods to what all pods take, and to what those take that stay; whatever the job does not ask is not read."""

    def __init__(self, rules: JobRules, nodes: Mapping[str, kube.Node], taken: Load, staying: Load) -> None:
        self.nodes = nodes
        self._rules, self._taken, self._staying = rules, taken, staying
        self._roles = list(rules.roles.values())
        self._asks_for_ports = any(role.ports for role in self._roles)
        self._has_rules = any(role.keys for role in self._roles)

    def add(self, pod: kube_pods.CountedPod, name: str) -> None:
        request = held(pod)
        is_between = not pod.spec.node_name and (pod.spec.priority or 0) < self._rules.priorities[1]
        for load in (self._taken, self._staying) if _stays(pod) else (self._taken,):
            load.requests.setdefault(name, []).append(request)
            load.between += is_between
            if self._asks_for_ports and (ports := host_ports(pod.spec)):
                load.ports.setdefault(name, set()).update(ports)
            if self._rules.exclusive_claims and pod.metadata.namespace == self._rules.namespace:
                used = self._rules.exclusive_claims & _claims(kube_pods.decoded(pod.spec.volumes, list[kube.Volume]))
                load.claims.setdefault(EVERYWHERE if pod.spec.node_name else name, set()).update(used)
            if self._has_rules or pod.spec.affinity:
                self._mark(load, pod, self.nodes[name])

    def _mark(self, load: Load, pod: kube_pods.CountedPod, node: kube.Node) -> None:
        affinity = pod.spec.affinity
        anti = terms(affinity.pod_anti_affinity, pod.metadata.namespace) if affinity else ()
        mark = other_pods.mark if pod.spec.node_name else other_pods.mark_nominated
        for role in self._roles:
            if anti or role.keys:
                mark(load.of(role.role.name), self._rules, role, pod, node, anti)


def _count_own(counts: Counts, pod: kube_pods.CountedPod, has_node: bool) -> None:
    if (pod.metadata.labels or {}).get(ROLE_LABEL) != PREFLIGHT:
        counts.own += has_node
        _add(counts.own_request, held(pod))


def _apart(rules: RoleRules, job: JobRules) -> tuple[Apart, ...]:
    """Return the anti-affinity between the role and the job's roles, whichever of both asks for it."""
    found: dict[str, set[str]] = {}
    for name, other in job.roles.items():
        about_other = [term for term in rules.apart if term.about(job.namespace, job.namespaces, other.labels)]
        about_us = [term for term in other.apart if term.about(job.namespace, job.namespaces, rules.labels)]
        for term in (*about_other, *about_us):
            found.setdefault(term.key, set()).add(name)
    return tuple(Apart(key, frozenset(roles)) for key, roles in sorted(found.items()))


def _claims(volumes: Iterable[kube.Volume] | None) -> set[str]:
    used = (volume.persistent_volume_claim for volume in volumes or ())
    return {claim.claim_name for claim in used if claim is not None}


def _is_own(pod: kube_pods.CountedPod, namespace: str, release: str) -> bool:
    """Tell whether the pod stays, or makes room, as the job of the release changes; one that is leaving still holds."""
    labels = pod.metadata.labels or {}
    ours = (labels.get(NAME_LABEL), labels.get(INSTANCE_LABEL)) == (CHART, release)
    return ours and pod.metadata.namespace == namespace and pod.metadata.deletion_timestamp is None


def _stays(pod: kube_pods.CountedPod) -> bool:
    owners = [owner.kind for owner in pod.metadata.owner_references or ()]
    return DAEMON_SET in owners or STATIC_POD in (pod.metadata.annotations or ())


def _add(total: Units, more: Mapping[str, int], times: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount * times
