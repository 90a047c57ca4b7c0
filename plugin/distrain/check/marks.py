"""What a cluster's pods mean for the pods of one role: kept per node, as pods come and go one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from distrain import kube
from distrain.check import labels
from distrain.check.labels import Labels
from distrain.check.rules import JobRules, RoleRules, Term
from distrain.kube.pods import CountedPod
from distrain.solver.problem import Near, Spread

REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{UNEVEN} (missing required label)"


class Marks(Struct):
    """Nodes with pods that count for the role's affinity, that its anti-affinity is about, and that its spread counts.

    `repelling` are domains (key and value) of pods whose anti-affinity is about the role's pods; `blocked` are nodes
    that the role's own keeps it off because of a pod nominated for them, `shunning` those where it is that pod's.
    `awaited` counts nominated pods that the scheduler may look at or not.
    """

    near: set[str] = field(default_factory=set)
    apart: dict[int, set[str]] = field(default_factory=dict)
    counts: dict[int, Counter[str]] = field(default_factory=dict)
    repelling: set[tuple[str, str]] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    shunning: set[str] = field(default_factory=set)
    awaited: int = 0


def mark(
    marks: Marks, rules: JobRules, role: RoleRules, pod: CountedPod, node: kube.Node, anti: Iterable[Term]
) -> None:
    """Note what a pod on a node means for the role; `anti` is the pod's own anti-affinity."""
    name, own, namespace = node.metadata.name, pod.labels, pod.namespace
    if role.counted(namespace, rules.namespaces, own):
        marks.near.add(name)
    for number, term in enumerate(role.apart):
        if term.about(namespace, rules.namespaces, own):
            marks.apart.setdefault(number, set()).add(name)
    for number, spread in enumerate(role.spread):
        if _is_counted(spread, pod, rules.namespace, own):
            marks.counts.setdefault(number, Counter())[name] += 1
    marks.repelling.update(_repelling(anti, rules, role, node))


def mark_nominated(
    marks: Marks, rules: JobRules, role: RoleRules, pod: CountedPod, node: kube.Node, anti: Iterable[Term]
) -> None:
    """Note the same of a pod that waits for its node: the scheduler looks at it on that node alone."""
    own, namespace = pod.labels, pod.namespace
    found = node.metadata.labels or {}
    marks.awaited += any(_is_counted(spread, pod, rules.namespace, own) for spread in role.spread)
    avoided = any(term.key in found and term.about(namespace, rules.namespaces, own) for term in role.apart)
    if avoided:
        marks.blocked.add(node.metadata.name)
    if _repelling(anti, rules, role, node):
        marks.shunning.add(node.metadata.name)
        # The scheduler looks at it once any rule is about the pod: here once such a pod of the job has its node.
        marks.awaited += not (role.near or role.apart) and any(
            term.about(rules.namespace, rules.namespaces, role.labels)
            for other in rules.roles.values()
            for term in other.apart
        )


class Settled(Struct, frozen=True):
    """Which nodes other pods leave to the role: `avoided` and `repelling` are domains, by key and value."""

    role: RoleRules
    avoided: frozenset[tuple[str, str]]
    repelling: frozenset[tuple[str, str]]
    blocked: frozenset[str]

    def refusal(self, node: kube.Node) -> str | None:
        """Return the scheduler's words for why other pods keep the role off the node, or None when they do not."""
        found = node.metadata.labels or {}
        if any(each.topology_key not in found for each in self.role.spread):
            return NO_DOMAIN
        if any(term.key not in found for term in self.role.near):
            return NOT_NEAR
        if any(found.get(key) == value for key, value in self.avoided):
            return NOT_APART
        if node.metadata.name in self.blocked or any(found.get(key) == value for key, value in self.repelling):
            return REPELLED
        return None


def settle(marks: Marks, role: RoleRules, nodes: Mapping[str, kube.Node]) -> Settled:
    avoided = frozenset(
        (term.key, domain)
        for number, term in enumerate(role.apart)
        for domain in domains(marks.apart.get(number, ()), term.key, nodes)
    )
    has_rules = bool(role.near or role.apart or marks.repelling)
    blocked = marks.blocked | marks.shunning if has_rules else marks.blocked
    return Settled(role, avoided, frozenset(marks.repelling), frozenset(blocked))


def near(marks: Marks, role: RoleRules, job: JobRules, nodes: Mapping[str, kube.Node]) -> Near | None:
    """Return the role's affinity to the job's pods and the domains where other pods fulfil it."""
    if not role.near:
        return None
    keys = tuple(dict.fromkeys(term.key for term in role.near))
    roles = frozenset(
        name for name, other in job.roles.items() if role.counted(job.namespace, job.namespaces, other.labels)
    )
    return Near(keys, roles, {key: domains(marks.near, key, nodes) for key in keys})


def spread(marks: Marks, role: RoleRules, job: JobRules, nodes: Mapping[str, kube.Node]) -> tuple[Spread, ...]:
    """Return the role's spread constraints; one that counts no pod at all only asks for its label."""
    return tuple(
        _spread(constraint, marks.counts.get(number, Counter()), role, job, nodes)
        for number, constraint in enumerate(role.spread)
        if constraint.label_selector is not None and not labels.is_empty(constraint.label_selector)
    )


def domains(names: Iterable[str], key: str, nodes: Mapping[str, kube.Node]) -> frozenset[str]:
    found = ((nodes[name].metadata.labels or {}).get(key) for name in names if name in nodes)
    return frozenset(domain for domain in found if domain is not None)


def _spread(
    constraint: kube.Spread, counts: Counter[str], role: RoleRules, job: JobRules, nodes: Mapping[str, kube.Node]
) -> Spread:
    eligible = frozenset(name for name, node in nodes.items() if role.eligible(node, constraint))
    present: Counter[str] = Counter()
    for name, count in counts.items():
        if name in eligible:
            present[(nodes[name].metadata.labels or {})[constraint.topology_key]] += count
    counted = frozenset(
        name for name, other in job.roles.items() if labels.selects(constraint.label_selector, other.labels)
    )
    return Spread(constraint.topology_key, constraint.max_skew, counted, eligible, present, constraint.min_domains or 1)


def _is_counted(spread: kube.Spread, pod: CountedPod, namespace: str, own: Labels) -> bool:
    """Tell whether a constraint counts a pod; one that is leaving it does not."""
    if pod.namespace != namespace or pod.is_leaving:
        return False
    return labels.selects(spread.label_selector, own)


def _repelling(anti: Iterable[Term], rules: JobRules, role: RoleRules, node: kube.Node) -> set[tuple[str, str]]:
    """Return the domains from which a pod's anti-affinity keeps the role's pods."""
    found = node.metadata.labels or {}
    return {
        (term.key, found[term.key])
        for term in anti
        if term.key in found and term.about(rules.namespace, rules.namespaces, role.labels)
    }
