"""Simulate, pod by pod, the scheduler that problem.py describes. Also create random scheduling problems."""

from __future__ import annotations

import random
from collections.abc import Sequence

from distrain.solver.problem import Affinity, AntiAffinity, Node, Role, TopologySpread

KEYS = ("host", "zone", "rack")
# The number of pods that are placed, indexed by role and node.
Placed = tuple[tuple[int, ...], ...]


def outcomes(nodes: Sequence[Node], roles: Sequence[Role], limit: int = 10**9) -> tuple[bool, bool] | None:
    """Return two facts: whether the scheduler can get stuck, and whether it can place all pods.

    Return None if the search would visit more than `limit` states.
    """
    start = ((0,) * len(nodes),) * len(roles)
    seen, todo = {start}, [start]
    stuck = complete = False
    while todo:
        placed = todo.pop()
        following = steps(nodes, roles, placed)
        if all(sum(held) == role.count for held, role in zip(placed, roles, strict=True)):
            complete = True
        elif not following:
            stuck = True
        todo += set(following) - seen
        seen.update(following)
        if len(seen) > limit:
            return None
    return stuck, complete


def play(nodes: Sequence[Node], roles: Sequence[Role], chance: random.Random) -> bool:
    """Place pods at random.

    Stop when none is left or a pod finds no node. Return whether all pods are placed.
    """
    placed: Placed = ((0,) * len(nodes),) * len(roles)
    while following := steps(nodes, roles, placed):
        placed = chance.choice(following)
    return all(sum(held) == role.count for held, role in zip(placed, roles, strict=True))


def steps(nodes: Sequence[Node], roles: Sequence[Role], placed: Placed) -> list[Placed]:
    return [
        (*placed[:r], (*placed[r][:n], placed[r][n] + 1, *placed[r][n + 1 :]), *placed[r + 1 :])
        for r, role in enumerate(roles)
        if sum(placed[r]) < role.count
        for n, node in enumerate(nodes)
        if _takes(nodes, roles, placed, role, n, node)
    ]


def _takes(nodes: Sequence[Node], roles: Sequence[Role], placed: Placed, role: Role, n: int, node: Node) -> bool:
    if node.name not in role.nodes:
        return False
    for resource, amount in role.request.items():
        taken = sum(other.request.get(resource, 0) * placed[o][n] for o, other in enumerate(roles))
        if amount and taken + amount > node.free.get(resource, 0):
            return False
    return (
        (role.affinity is None or _near(nodes, roles, placed, role, role.affinity, node))
        and all(_apart(nodes, roles, placed, rule, node) for rule in role.anti_affinity)
        and all(_spread(nodes, roles, placed, role, rule, node) for rule in role.spread)
    )


def _near(nodes: Sequence[Node], roles: Sequence[Role], placed: Placed, role: Role, rule: Affinity, node: Node) -> bool:
    domains = {
        key: set(rule.present.get(key, ()))
        | {
            at.labels[key]
            for o, counted in enumerate(roles)
            if counted.name in rule.roles
            for n, at in enumerate(nodes)
            if placed[o][n] and key in at.labels
        }
        for key in rule.keys
    }
    if any(key not in node.labels for key in rule.keys):
        return False
    if role.name in rule.roles and not any(domains.values()):
        return True
    return all(node.labels[key] in domains[key] for key in rule.keys)


def _apart(nodes: Sequence[Node], roles: Sequence[Role], placed: Placed, rule: AntiAffinity, node: Node) -> bool:
    return rule.key not in node.labels or not any(
        placed[o][n]
        for o, other in enumerate(roles)
        if other.name in rule.roles
        for n, at in enumerate(nodes)
        if at.labels.get(rule.key) == node.labels[rule.key]
    )


def _spread(
    nodes: Sequence[Node], roles: Sequence[Role], placed: Placed, role: Role, rule: TopologySpread, node: Node
) -> bool:
    if rule.key not in node.labels:
        return False

    def count(domain: str) -> int:
        return rule.present.get(domain, 0) + sum(
            placed[o][n]
            for o, other in enumerate(roles)
            if other.name in rule.roles
            for n, at in enumerate(nodes)
            if at.name in rule.eligible and at.labels.get(rule.key) == domain
        )

    domains = {each.labels[rule.key] for each in nodes if each.name in rule.eligible and rule.key in each.labels}
    smallest = min(map(count, domains), default=0) if len(domains) >= rule.min_domains else 0
    return count(node.labels[rule.key]) + (role.name in rule.roles) - smallest <= rule.max_skew


def question(chance: random.Random, *, nodes: int = 5, pods: int = 7) -> tuple[list[Node], list[Role]]:
    """Return a random problem with all kinds of rules.

    About half of the problems are close: all pods just fit, or one pod does not.
    """
    found = [_node(chance, number) for number in range(chance.randint(1, nodes))]
    counts = [1] * chance.randint(1, min(3, pods))
    while sum(counts) < pods and chance.random() < 0.85:
        counts[chance.randrange(len(counts))] += 1
    names = [f"r{number}" for number in range(len(counts))]
    roles = [_role(chance, name, count, names, found) for name, count in zip(names, counts, strict=True)]
    return found, _both_sides(roles)


def _node(chance: random.Random, number: int) -> Node:
    labels = {"host": f"h{number}", "zone": chance.choice("abc"), "rack": chance.choice("xy")}
    shown = {key: value for key, value in labels.items() if chance.random() < 0.93}
    size = chance.choice([1, 2, 2, 3, 4, 8, 8])
    return Node(
        f"n{number}",
        {"pods": chance.choice([1, 2, 4, 10, 10]), "cpu": size, "gpu": chance.choice([0, size, 9, 9])},
        shown,
    )


def _role(chance: random.Random, name: str, count: int, names: list[str], nodes: Sequence[Node]) -> Role:
    request = {"pods": 1, "cpu": chance.choice([0, 1, 1, 2]), "gpu": chance.choice([0, 0, 1])}
    admitting = frozenset(node.name for node in nodes if chance.random() < 0.9)
    affinity = _near_rule(chance, name, names, nodes) if chance.random() < 0.35 else None
    anti_affinity = tuple(
        AntiAffinity(chance.choice(KEYS), _some(chance, name, names)) for _ in range(2) if chance.random() < 0.18
    )
    spread = tuple(_spread_rule(chance, key, name, names, nodes) for key in KEYS if chance.random() < 0.18)
    keys = {rule.key for rule in spread}
    admitting = frozenset(node.name for node in nodes if node.name in admitting and keys <= node.labels.keys())
    return Role(name, count, request, admitting, affinity, anti_affinity, spread)


def _near_rule(chance: random.Random, name: str, names: list[str], nodes: Sequence[Node]) -> Affinity:
    keys = tuple(chance.sample(KEYS, chance.choice([1, 1, 1, 2])))
    present: dict[str, frozenset[str]] = {}
    if chance.random() < 0.15:
        node = chance.choice(nodes)
        present = {key: frozenset({node.labels[key]}) for key in keys if key in node.labels}
    return Affinity(keys, _some(chance, name, names), present)


def _spread_rule(chance: random.Random, key: str, name: str, names: list[str], nodes: Sequence[Node]) -> TopologySpread:
    eligible = frozenset(node.name for node in nodes if chance.random() < 0.95)
    domains = sorted({node.labels[key] for node in nodes if key in node.labels})
    present = {domain: chance.randint(0, 2) for domain in domains if chance.random() < 0.2}
    return TopologySpread(
        key, chance.choice([1, 1, 1, 2]), _some(chance, name, names), eligible, present, chance.choice([1, 1, 1, 2, 4])
    )


def _some(chance: random.Random, name: str, names: list[str]) -> frozenset[str]:
    own = {name} if chance.random() < 0.8 else set()
    return frozenset(own | {other for other in names if chance.random() < 0.25})


def _both_sides(roles: list[Role]) -> list[Role]:
    found = []
    for role in roles:
        others = [
            AntiAffinity(r.key, frozenset({o.name})) for o in roles for r in o.anti_affinity if role.name in r.roles
        ]
        found.append(
            Role(
                role.name,
                role.count,
                role.request,
                role.nodes,
                role.affinity,
                (*role.anti_affinity, *others),
                role.spread,
            )
        )
    return found
