"""What pods take of the nodes, summed up pod by pod; what two of us have summed up can be added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from distrain import kube
from distrain.amounts import Units, add
from distrain.check import marks as other_pods
from distrain.check.marks import Marks
from distrain.check.ports import HostPort, host_ports
from distrain.check.rules import JobRules, Term, terms
from distrain.check.volumes import claims_of
from distrain.job import CHART, INSTANCE_LABEL, NAME_LABEL, ROLE_LABEL
from distrain.kube.pods import CountedPod, Kind
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

    requests: dict[str, Units] = field(default_factory=dict)
    ports: dict[str, set[HostPort]] = field(default_factory=dict)
    claims: dict[str, set[str]] = field(default_factory=dict)
    marks: dict[str, Marks] = field(default_factory=dict)
    between: int = 0

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
    nodes: Iterable[kube.Node], pods: Iterable[CountedPod], rules: JobRules, release: str | None = None
) -> Loads:
    """Sum up what the pods take, for a job with these rules, of this release if it runs already.

    A pod that has ended takes nothing. One that waits with a node nominated for it takes its room there already,
    unless its priority is lower: the scheduler lets it go first. Other waiting pods are counted, since they may take
    room before ours. No pod is kept.
    """
    loading = _Loading(rules, {node.metadata.name: node for node in nodes})
    # Most of a node's pods are like others there: what is the same for all of them is worked out once.
    alike: Counter[tuple[str, Kind]] = Counter()
    for pod in pods:
        node, kind = pod.node_name, pod.kind
        if release and _is_own(pod, rules.namespace, release):
            _count_own(loading.loads.counts, pod, kind)
            continue
        alike[node, kind] += 1
        if loading.looks_at_each or kind.anti_affinity:
            loading.look_at(pod, kind)
    for (node, kind), number in alike.items():
        loading.add(node, kind, number)
    return loading.loads


class _Loading:
    """Adds pods to what all pods take, and to what those take that stay; whatever the job does not ask is not read.

    `looks_at_each`: whether pods of the same kind on the same node may mean different things for the job.
    """

    def __init__(self, rules: JobRules, nodes: Mapping[str, kube.Node]) -> None:
        self.loads = Loads()
        self._rules, self._nodes = rules, nodes
        self._roles = list(rules.roles.values())
        self._asks_for_ports = any(role.ports for role in self._roles)
        self._has_rules = any(role.keys for role in self._roles)
        self.looks_at_each = self._has_rules or bool(rules.exclusive_claims)

    def add(self, node: str, kind: Kind, number: int) -> None:
        """Add so many pods of a kind, which are on the node, or on none."""
        counts, is_lower = self.loads.counts, kind.priority < self._rules.priorities[1]
        if kind.phase in ENDED:
            return
        counts.lower += number if node and is_lower else 0
        name = self._place(node, kind)
        counts.pending += 0 if name else number
        for load in self._into(name, kind):
            add(load.requests.setdefault(name, {}), held(kind), number)
            load.between += number if is_lower and not node else 0
            if self._asks_for_ports and (ports := host_ports(kind)):
                load.ports.setdefault(name, set()).update(ports)

    def look_at(self, pod: CountedPod, kind: Kind) -> None:
        """Note what a pod means for the job's claims and rules."""
        name = self._place(pod.node_name, kind)
        for load in self._into(name, kind):
            if self._rules.exclusive_claims and pod.namespace == self._rules.namespace:
                used = self._rules.exclusive_claims.intersection(claims_of(pod.volumes))
                load.claims.setdefault(EVERYWHERE if pod.node_name else name, set()).update(used)
            if self._has_rules or kind.anti_affinity:
                self._mark(load, pod, terms(kind.anti_affinity, pod.namespace), self._nodes[name])

    def _place(self, node: str, kind: Kind) -> str:
        """Return the node of which a pod takes room, which one that waits for it may do; none where it has no node."""
        goes_first = kind.priority >= self._rules.priorities[0]
        return node or (kind.nominated_node_name if goes_first else None) or ""

    def _into(self, name: str, kind: Kind) -> Sequence[Load]:
        if kind.phase in ENDED or name not in self._nodes:
            return ()
        return (self.loads.taken, self.loads.staying) if kind.stays else (self.loads.taken,)

    def _mark(self, load: Load, pod: CountedPod, anti: Sequence[Term], node: kube.Node) -> None:
        mark = other_pods.mark if pod.node_name else other_pods.mark_nominated
        for role in self._roles:
            if anti or role.keys:
                mark(load.of(role.role.name), self._rules, role, pod, node, anti)


def _count_own(counts: Counts, pod: CountedPod, kind: Kind) -> None:
    if kind.phase not in ENDED and pod.labels.get(ROLE_LABEL) != PREFLIGHT:
        counts.own += bool(pod.node_name or kind.nominated_node_name)
        add(counts.own_request, held(kind))


def _is_own(pod: CountedPod, namespace: str, release: str) -> bool:
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
