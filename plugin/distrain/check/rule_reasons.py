"""Find the nodes that have the resources for a job's next pod, but refuse it because of a rule between pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from distrain.scheduler.messages import NOT_APART, NOT_NEAR, UNEVEN
from distrain.solver.capacity import copies
from distrain.solver.problem import Affinity, AntiAffinity, Node, Role, TopologySpread


def between_pods(role: Role) -> Iterator[str]:
    """Yield the scheduler's messages for rules between the job's own pods."""
    if role.spread:
        yield UNEVEN
    if role.affinity:
        yield NOT_NEAR
    if role.anti_affinity:
        yield NOT_APART


def refused_by_rules(nodes: Sequence[Node], role: Role) -> dict[str, str]:
    """For each node with resources for another pod that a rule forbids, map the node's name to the rule's message."""
    found: dict[str, str] = {}
    # Apply the scheduler's filters in reverse order, so that the message of the first filter overwrites later ones.
    for anti_affinity in role.anti_affinity:
        found |= dict.fromkeys(_crowded(nodes, role, anti_affinity), NOT_APART)
    far = set(_far(nodes, role, role.affinity)) if role.affinity else set()
    found |= dict.fromkeys(far, NOT_NEAR)
    near = [node for node in nodes if node.name not in far]
    for spread in role.spread:
        found |= dict.fromkeys(_uneven(nodes, near, role, spread), UNEVEN)
    return {node.name: found[node.name] for node in nodes if node.name in found and copies(node, role)}


def _crowded(nodes: Sequence[Node], role: Role, rule: AntiAffinity) -> Iterator[str]:
    """If the role's pods exclude each other, yield the nodes in domains whose resources suffice for several pods.

    Such a domain can take only one pod of the role, so the anti-affinity rule refuses the next pod there.
    """
    if role.name in rule.roles and role.count > 1:
        room = _room(nodes, role, rule.key)
        yield from (node.name for node in nodes if rule.key in node.labels and room[node.labels[rule.key]] > 1)


def _far(nodes: Sequence[Node], role: Role, rule: Affinity) -> Iterator[str]:
    """If no pod selected by the role's affinity runs in a domain, or can run there later, yield the domain's nodes."""
    if not rule.roles:
        present = {key: rule.present.get(key, frozenset()) for key in rule.keys}
        yield from (node.name for node in nodes if any(node.labels.get(key) not in present[key] for key in rule.keys))
    if rule.roles == {role.name} and len(rule.keys) == 1 and not any(rule.present.values()):
        # The first pod chooses the domain for all pods. No topology domain has room for all pods, so report the largest
        # domain.
        room = _room(nodes, role, rule.keys[0])
        largest = max(room.values(), default=0)
        if largest < role.count:
            yield from (node.name for node in nodes if room[node.labels.get(rule.keys[0], "")] < largest)


def _uneven(nodes: Sequence[Node], near: Sequence[Node], role: Role, rule: TopologySpread) -> Iterator[str]:
    """Yield the nodes in domains whose resources suffice for more pods than the topology spread constraint allows.

    `near` are the nodes on which pods of the role may run.
    """
    if rule.roles - {role.name}:
        return
    room = _room(near, role, rule.key) if rule.roles else Counter[str]()
    smallest = _smallest(nodes, rule, room)
    for node in nodes:
        domain = node.labels.get(rule.key, "")
        allowed = rule.max_skew + smallest - rule.present.get(domain, 0)
        if allowed < (min(room[domain], role.count) if rule.roles else 0):
            yield node.name


def _smallest(nodes: Sequence[Node], rule: TopologySpread, room: Mapping[str, int]) -> int:
    """Return the smallest number of pods in a domain if every domain has as many pods as its resources allow."""
    domains = {node.labels[rule.key] for node in nodes if node.name in rule.eligible and rule.key in node.labels}
    if len(domains) < rule.min_domains:
        return 0
    return min((rule.present.get(domain, 0) + room.get(domain, 0) for domain in domains), default=0)


def _room(nodes: Sequence[Node], role: Role, key: str) -> Counter[str]:
    """For each domain of the topology key, return the number of the role's pods that fit by resources alone."""
    room: Counter[str] = Counter()
    for node in nodes:
        if key in node.labels:
            room[node.labels[key]] += copies(node, role)
    return room
