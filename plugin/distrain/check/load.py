"""What pods take of the nodes, summed up pod by pod; what two of us have summed up can be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from distrain import kube, kube_pods
from distrain.amounts import Units, add
from distrain.check import marks as other_pods
from distrain.check.marks import Marks
from distrain.check.ports import HostPort, host_ports
from distrain.check.rules import JobRules, Term, terms
from distrain.check.volumes import claims_of
from distrain.job import CHART, INSTANCE_LABEL, NAME_LABEL, ROLE_LABEL
from distrain.pod_amounts import held

# The role of the pod that asks, where the check runs as a hook of the chart: it is gone before the job is there.
PREFLIGHT = "preflight"
ENDED = ("Succeeded", "Failed")
# In place of a node's name.
EVERYWHERE = ""


class Load(Struct):
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
        total = Units()
        if not (requests := self.requests.get(node)):
            return total
        counts = Counter(map(id, requests))
        for number, request in {id(request): request for request in requests}.items():
            add(total, request, counts[number])
        return total

    def of(self, role: str) -> Marks:
        return self.marks.setdefault(role, Marks())


class Counts(Struct):
    """Pods that the verdict rests on without judging them.

    `pending` wait for a node, and `lower` have a lower priority than the job's. `own` are the run's own, whose room
    counts as free: they ask for `own_request`.
    """

    pending: int = 0
    lower: int = 0
    own: int = 0
    own_request: Units = field(default_factory=dict)


class Loads(Struct):
    """What all pods take, and what those take that stay whatever ends."""

    taken: Load = field(default_factory=Load)
    staying: Load = field(default_factory=Load)
    counts: Counts = field(default_factory=Counts)

    def __add__(self, other: Loads) -> Loads:
        """Return what the pods of both take; neither of the two is of use afterwards."""
        _join(self, other)
        return self


def summed(
    nodes: Iterable[kube.Node], pods: Iterable[kube_pods.CountedPod], rules: JobRules, release: str | None = None
) -> Loads:
    """Sum up what the pods take, for a job with these rules, of this release if it runs already.

    A pod that has ended takes nothing. One that waits with a node nominated for it takes its room there already,
    unless its priority is lower: the scheduler lets it go first. Other waiting pods are counted, since they may take
    room before ours. No pod is kept.
    """
    loads = Loads()
    loading, counts = _Loading(rules, {node.metadata.name: node for node in nodes}, loads), loads.counts
    for pod in pods:
        kind = pod.kind
        name = pod.node_name or kind.nominated_node_name
        if kind.phase in ENDED:
            continue
        if release and _is_own(pod, rules.namespace, release):
            _count_own(counts, pod, kind, bool(name))
            continue
        has_node, priority = bool(pod.node_name), kind.priority
        counts.lower += has_node and priority < rules.priorities[1]
        if not name or (not has_node and priority < rules.priorities[0]):
            counts.pending += 1
        elif name in loading.nodes:
            loading.add(pod, kind, name)
    return loads


class _Loading:
    """Adds pods to what all pods take, and to what those take that stay; whatever the job does not ask is not read."""

    def __init__(self, rules: JobRules, nodes: Mapping[str, kube.Node], loads: Loads) -> None:
        self.nodes = nodes
        self._rules, self._loads = rules, loads
        self._roles = list(rules.roles.values())
        self._asks_for_ports = any(role.ports for role in self._roles)
        self._has_rules = any(role.keys for role in self._roles)

    def add(self, pod: kube_pods.CountedPod, kind: kube_pods.Kind, name: str) -> None:
        request = held(kind)
        for load in (self._loads.taken, self._loads.staying) if kind.stays else (self._loads.taken,):
            load.requests.setdefault(name, []).append(request)
            if not pod.node_name:
                load.between += kind.priority < self._rules.priorities[1]
            if self._asks_for_ports and (ports := host_ports(kind)):
                load.ports.setdefault(name, set()).update(ports)
            if self._rules.exclusive_claims and pod.namespace == self._rules.namespace:
                claims = claims_of(pod.volumes)
                used = self._rules.exclusive_claims.intersection(claims)
                load.claims.setdefault(EVERYWHERE if pod.node_name else name, set()).update(used)
            if self._has_rules or kind.anti_affinity:
                self._mark(load, pod, terms(kind.anti_affinity, pod.namespace), self.nodes[name])

    def _mark(self, load: Load, pod: kube_pods.CountedPod, anti: Sequence[Term], node: kube.Node) -> None:
        mark = other_pods.mark if pod.node_name else other_pods.mark_nominated
        for role in self._roles:
            if anti or role.keys:
                mark(load.of(role.role.name), self._rules, role, pod, node, anti)


def _count_own(counts: Counts, pod: kube_pods.CountedPod, kind: kube_pods.Kind, has_node: bool) -> None:
    if pod.labels.get(ROLE_LABEL) != PREFLIGHT:
        counts.own += has_node
        add(counts.own_request, held(kind))


def _is_own(pod: kube_pods.CountedPod, namespace: str, release: str) -> bool:
    """Tell whether the pod stays, or makes room, as the job of the release changes; one that is leaving still holds."""
    if pod.namespace != namespace or pod.is_leaving:
        return False
    labels = pod.labels
    return (labels.get(NAME_LABEL), labels.get(INSTANCE_LABEL)) == (CHART, release)


def _join(one: Any, other: Any) -> None:
    """Add what the other has, field by field: numbers are added, lists and sets joined, and so all the way down."""
    for name in one.__struct_fields__:
        setattr(one, name, _joined(getattr(one, name), getattr(other, name)))


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, int):
        return one + other
    if isinstance(one, set):
        return one | other
    if isinstance(one, list):
        one.extend(other)
    elif isinstance(one, dict):
        for key, value in other.items():
            one[key] = _joined(one[key], value) if key in one else value
    else:
        _join(one, other)
    return one
