"""Reduce a problem to a smaller one with the same answer: merge equal roles, and drop rules that have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from distrain.solver.problem import Affinity, AntiAffinity, Node, Role, TopologySpread

# For each topology key, a mapping of node name to label value; it contains only nodes that have the key.
Labels = Mapping[str, Mapping[str, str]]
Rule = TypeVar("Rule", Affinity, AntiAffinity, TopologySpread)


def reduced(nodes: Sequence[Node], roles: Sequence[Role], main: Role) -> list[Role]:
    """Return the roles that have pods, with equal roles merged. The main role comes last, even if it has no pods."""
    present = [role for role in roles if role.count or role is main]
    mutual = _mutual(present)
    groups = _merged(mutual, present.index(main))
    found = labels(nodes, groups)
    return [_settled(role, groups, found) for role in groups]


def asked(role: Role) -> list[tuple[str, int]]:
    return [(resource, amount) for resource, amount in role.request.items() if amount > 0]


def labels(nodes: Iterable[Node], roles: Iterable[Role]) -> Labels:
    """For each topology key that a rule uses, return its value on each node."""
    keys = {key for role in roles for key in _keys(role)}
    return {key: {node.name: node.labels[key] for node in nodes if key in node.labels} for key in sorted(keys)}


def _keys(role: Role) -> Iterable[str]:
    yield from role.affinity.keys if role.affinity else ()
    yield from (rule.key for rule in role.anti_affinity)
    yield from (rule.key for rule in role.spread)


def _mutual(roles: Sequence[Role]) -> list[Role]:
    """Add each anti-affinity between two roles to both roles, and remove roles without pods from the rules."""
    names = frozenset(role.name for role in roles)
    found = []
    for role in roles:
        anti_affinity = {rule.key: frozenset[str]() for other in roles for rule in other.anti_affinity}
        for rule in role.anti_affinity:
            anti_affinity[rule.key] |= rule.roles & names
        for other in roles:
            for rule in other.anti_affinity:
                anti_affinity[rule.key] |= {other.name} if role.name in rule.roles else frozenset()
        affinity = role.affinity and replace(role.affinity, roles=role.affinity.roles & names)
        spread = tuple(replace(rule, roles=rule.roles & names) for rule in role.spread)
        rules = tuple(AntiAffinity(key, others) for key, others in sorted(anti_affinity.items()) if others)
        found.append(replace(role, affinity=affinity, anti_affinity=rules, spread=spread))
    return found


def _merged(roles: Sequence[Role], main: int) -> list[Role]:
    """Merge roles whose pods have the same rules and are treated the same by the rules of all roles."""
    groups: dict[object, list[Role]] = {}
    for role in roles:
        groups.setdefault(_likeness(role, roles), []).append(role)
    ours = groups.pop(_likeness(roles[main], roles))
    ordered = [*groups.values(), [roles[main], *[role for role in ours if role is not roles[main]]]]
    first = {role.name: group[0].name for group in ordered for role in group}
    return [
        replace(_renamed(group[0], first), count=sum(role.count for role in group))
        for group in ordered
        if group is ordered[-1] or any(role.count for role in group)
    ]


def _likeness(role: Role, roles: Sequence[Role]) -> object:
    affinity = role.affinity and (role.affinity.keys, role.affinity.roles, _frozen(role.affinity.present))
    spread = tuple(
        (rule.key, rule.max_skew, rule.roles, rule.eligible, _frozen(rule.present), rule.min_domains)
        for rule in role.spread
    )
    named = tuple(role.name in names for other in roles for names in _named(other))
    return frozenset(asked(role)), role.nodes, affinity, role.anti_affinity, spread, named


def _frozen(mapping: Mapping[str, frozenset[str]] | Mapping[str, int]) -> frozenset[object]:
    return frozenset(mapping.items())


def _named(role: Role) -> Iterable[frozenset[str]]:
    yield from [role.affinity.roles] if role.affinity else ()
    yield from (rule.roles for rule in role.anti_affinity)
    yield from (rule.roles for rule in role.spread)


def _renamed(role: Role, first: Mapping[str, str]) -> Role:
    def renamed(rule: Rule) -> Rule:
        return replace(rule, roles=frozenset(first[name] for name in rule.roles))

    anti_affinity, spread = tuple(map(renamed, role.anti_affinity)), tuple(map(renamed, role.spread))
    return replace(role, affinity=role.affinity and renamed(role.affinity), anti_affinity=anti_affinity, spread=spread)


def _settled(role: Role, roles: Sequence[Role], found: Labels) -> Role:
    """Apply the rules that the job's own pods cannot affect: remove the nodes that they refuse, then drop the rules."""
    admitting = role.nodes
    for key in (*(role.affinity.keys if role.affinity else ()), *(rule.key for rule in role.spread)):
        admitting &= found[key].keys()
    spread = tuple(rule for rule in role.spread if not _level(rule, admitting, found[rule.key]))
    for rule in spread:
        if not rule.roles:
            admitting = _within(rule, admitting, found[rule.key])
    affinity = role.affinity
    if affinity:
        beside = _beside_present(affinity, admitting, found)
        if not affinity.roles:
            admitting &= beside
        if len(beside) >= len(admitting) or _is_tied(role, affinity, admitting, roles, found):
            affinity = None
    spread = tuple(rule for rule in spread if rule.roles)
    return replace(role, nodes=admitting, affinity=affinity, spread=spread)


def _level(rule: TopologySpread, admitting: frozenset[str], values: Mapping[str, str]) -> bool:
    """Tell whether all nodes are in a single domain. The count of this domain is then also the smallest count."""
    domains = (values[name] for name in rule.eligible if name in values)
    first = next(domains, None)
    return rule.min_domains <= 1 and all(value == first for value in chain(domains, map(values.__getitem__, admitting)))


def _within(rule: TopologySpread, admitting: frozenset[str], values: Mapping[str, str]) -> frozenset[str]:
    """Return the nodes that a spread constraint admits, if the constraint counts no pods of the job."""
    domains = {values[name] for name in rule.eligible if name in values}
    smallest = min((rule.present.get(domain, 0) for domain in domains), default=0)
    least = 0 if len(domains) < rule.min_domains else smallest
    return frozenset(name for name in admitting if rule.present.get(values[name], 0) - least <= rule.max_skew)


def _beside_present(affinity: Affinity, admitting: frozenset[str], found: Labels) -> frozenset[str]:
    """Return the nodes whose domain contains, for every key, a matching pod of the cluster."""
    for key in affinity.keys:
        present = affinity.present.get(key, frozenset())
        admitting = frozenset(name for name in admitting if found[key][name] in present) if present else frozenset()
    return admitting


def _is_tied(role: Role, affinity: Affinity, admitting: frozenset[str], roles: Sequence[Role], found: Labels) -> bool:
    """Tell whether the affinity has no effect: all nodes of the role and of the counted pods are in one domain."""
    if role.name not in affinity.roles or any(affinity.present.values()):
        return False
    counted = [other.nodes for other in roles if other.name in affinity.roles]
    return all(_one_domain([admitting, *counted], found[key], len(affinity.keys) > 1) for key in affinity.keys)


def _one_domain(nodes: Iterable[frozenset[str]], values: Mapping[str, str], all_labelled: bool) -> bool:
    found = (values.get(name) for names in nodes for name in names if all_labelled or name in values)
    first = next(found, None)
    return all(value == first for value in found)
