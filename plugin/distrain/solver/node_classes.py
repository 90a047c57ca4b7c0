"""Convert the scheduling problem to numbers.

Nodes that are equal for the job form one class. A Census counts, in each topology domain, the pods that a rule looks
at. A topology key is `own` if its value differs on each node, as for the hostname. Each domain of an `own` key is a
single node, and the node's class stores the counts. All other topology keys are `shared`: a domain may contain many
nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from distrain.solver.closed_form import Case, Slot
from distrain.solver.pareto import Vector
from distrain.solver.problem import Node, Role
from distrain.solver.reduce import asked, labels

# MANY is larger than the number of pods that any node can run.
MANY = 1_000_000
# `_sums` computes at most MANY_SUMS different sums of requests.
MANY_SUMS = 256
# If a node belongs to no topology domain, NOWHERE is used instead of the number of pods in its domain.
NOWHERE = -MANY


class Census(Struct, frozen=True):
    """Counts the pods that a rule looks at: the pods of some roles, in each domain of a topology key.

    If `flag` is true, the rule only asks whether a count is 0. `present` has, for each domain, the number of counted
    pods before the job starts. `eligible` are the nodes whose pods are counted; None means all nodes. If `from_zero` is
    true, a spread constraint compares counts with 0, instead of with the smallest count of a domain.
    """

    key: str
    roles: frozenset[int]
    present: Mapping[str, int]
    flag: bool = True
    eligible: frozenset[str] | None = None
    from_zero: bool = False


class AffinityRule(Struct, frozen=True):
    """Required affinity: for each Census in `censuses`, the node's domain must contain a pod that the Census counts.

    With `first`, a pod may go to any node as long as no domain contains a counted pod.
    """

    censuses: tuple[int, ...]
    first: bool


class SpreadRule(Struct, frozen=True):
    census: int
    max_skew: int
    own: int


class Rules(Struct, frozen=True):
    affinity: AffinityRule | None = None
    anti_affinity: tuple[int, ...] = ()
    spread: tuple[SpreadRule, ...] = ()


class NodeClass(NamedTuple):
    """A class of nodes that are equal for the job.

    For each shared topology key, `domains` has the index of the nodes' domain, or -1 if the nodes have none. For each
    Census (a count of pods in each domain), `counted` tells whether it counts the pods on these nodes. For each Census
    of an `own` topology key, `values` has the number of counted pods on each node before the job starts.
    """

    slot: Slot
    domains: Vector
    counted: tuple[bool, ...]
    values: Vector


class Problem(Struct, frozen=True):
    """The scheduling problem.

    The main role is the last one. `shared` are the topology keys whose domains may contain several nodes, and `domains`
    are the values of each key.

    For each Census (a count of pods in each domain) of a shared key, `values` has the number of counted pods in each
    domain before the job starts, and `measured` tells whether a spread constraint includes the domain when it computes
    the smallest count.
    """

    kinds: Mapping[NodeClass, int]
    requests: Sequence[Vector]
    counts: Vector
    rules: Sequence[Rules]
    censuses: Sequence[Census]
    shared: Sequence[str]
    domains: Sequence[Sequence[str]]
    values: Sequence[Vector]
    measured: Sequence[tuple[bool, ...]]

    @property
    def free_of_rules(self) -> bool:
        return all(rules == Rules() for rules in self.rules)

    def sized(self, count: int) -> Problem:
        """Return a copy of this problem in which the main role has `count` pods."""
        return replace(self, counts=(*self.counts[:-1], count))

    def case(self) -> Case:
        """Return this problem without the rules between pods, as a Case."""
        return self.case_of(self.kinds)

    def case_of(self, kinds: Mapping[NodeClass, int]) -> Case:
        slots: Counter[Slot] = Counter()
        for kind, number in kinds.items():
            slots[kind.slot] += number
        return Case(slots, self.requests, self.counts)


def compact(nodes: Sequence[Node], roles: Sequence[Role]) -> Problem:
    """Convert nodes and roles to a Problem. `roles` must be a result of `reduced`, which merges equal roles."""
    return _Compaction(nodes, roles).result()


class _Compaction:
    def __init__(self, nodes: Sequence[Node], roles: Sequence[Role]) -> None:
        self.nodes, self.roles = nodes, roles
        self.number = {role.name: number for number, role in enumerate(roles)}
        self.labels = labels(nodes, roles)
        self.own = {key for key, values in self.labels.items() if len(set(values.values())) == len(values)}
        self.shared = [key for key in self.labels if key not in self.own]
        self.domains = {key: sorted(set(self.labels[key].values())) for key in self.shared}
        self.censuses: list[Census] = []
        self.exclusive = self._exclusive()
        self.rules = [self._rules(role) for role in roles]

    def result(self) -> Problem:
        resources = sorted({resource for role in self.roles for resource, _ in asked(role)})
        requests = [
            (
                *(role.request.get(resource, 0) for resource in resources),
                *(amounts.get(number, 0) for _, amounts in self.exclusive),
            )
            for number, role in enumerate(self.roles)
        ]
        counts = tuple(role.count for role in self.roles)
        kinds = self._kinds(resources, _Rounding(requests, counts))
        domains = [self.domains[key] for key in self.shared]
        values = [self._before(census) for census in self.censuses]
        measured = [self._measured(census) for census in self.censuses]
        return Problem(kinds, requests, counts, self.rules, self.censuses, self.shared, domains, values, measured)

    def _kinds(self, resources: Sequence[str], rounding: _Rounding) -> Counter[NodeClass]:
        """Count the nodes of each class.

        With thousands of nodes it is faster to compute each property for all nodes at once.
        """
        names = [node.name for node in self.nodes]
        admits = zip(*(map(role.nodes.__contains__, names) for role in self.roles), strict=True)
        domains = zip(*(self._numbered(key, names) for key in self.shared), strict=True)
        counted = zip(*(self._counted(census, names) for census in self.censuses), strict=True)
        values = zip(*(self._values(census, names) for census in self.censuses), strict=True)
        columns = [[node.free.get(resource, 0) for node in self.nodes] for resource in resources]
        for key, _ in self.exclusive:
            columns.append([MANY if name in self.labels[key] else MANY * MANY for name in names])
        none: Iterator[tuple[()]] = repeat(())
        found = Counter(
            zip(
                rounding.rounded(columns),
                admits,
                domains if self.shared else none,
                counted if self.censuses else none,
                values if self.censuses else none,
                strict=False,
            )
        )
        kinds = Counter[NodeClass]()
        for (amounts, admitted, *rest), number in found.items():
            kinds[NodeClass(Slot(amounts, admitted), *rest)] += number
        return kinds

    def _numbered(self, key: str, names: Sequence[str]) -> list[int]:
        values = self.labels[key]
        numbers = {value: number for number, value in enumerate(self.domains[key])}
        return [numbers[values[name]] if name in values else -1 for name in names]

    def _counted(self, census: Census, names: Sequence[str]) -> list[bool]:
        values = self.labels[census.key]
        if census.eligible is None:
            return [name in values for name in names]
        return [name in values and name in census.eligible for name in names]

    def _values(self, census: Census, names: Sequence[str]) -> list[int]:
        if census.key not in self.own:
            return [0] * len(names)
        values, present = self.labels[census.key], census.present
        return [present.get(values[name], 0) if name in values else NOWHERE for name in names]

    def _before(self, census: Census) -> Vector:
        return tuple(census.present.get(value, 0) for value in self.domains.get(census.key, ()))

    def _measured(self, census: Census) -> tuple[bool, ...]:
        values = self.labels[census.key]
        found = {values[name] for name in census.eligible or () if name in values}
        return tuple(value in found for value in self.domains.get(census.key, ()))

    def _rules(self, role: Role) -> Rules:
        affinity = None
        if role.affinity:
            counted = self._numbers(role.affinity.roles)
            present = role.affinity.present
            numbers = [
                self._census(Census(key, counted, dict.fromkeys(present.get(key, ()), 1))) for key in role.affinity.keys
            ]
            affinity = AffinityRule(tuple(numbers), role.name in role.affinity.roles and not any(present.values()))
        anti_affinity = tuple(
            self._census(Census(rule.key, frozenset({other}), {}))
            for rule in role.anti_affinity
            for other in sorted(self._numbers(rule.roles))
            if not self._is_exclusive(rule.key, self.number[role.name], other)
        )
        spread = tuple(self._spread(role, number) for number in range(len(role.spread)))
        return Rules(affinity, anti_affinity, spread)

    def _spread(self, role: Role, number: int) -> SpreadRule:
        rule = role.spread[number]
        values = self.labels[rule.key]
        domains = {values[name] for name in rule.eligible if name in values}
        from_zero = len(domains) < max(rule.min_domains, 1)
        counted = self._numbers(rule.roles)
        census = self._census(Census(rule.key, counted, rule.present, False, rule.eligible, from_zero))
        return SpreadRule(census, rule.max_skew, int(role.name in rule.roles))

    def _census(self, census: Census) -> int:
        if census not in self.censuses:
            self.censuses.append(census)
        return self.censuses.index(census)

    def _numbers(self, names: frozenset[str]) -> frozenset[int]:
        return frozenset(self.number[name] for name in names)

    def _exclusive(self) -> list[tuple[str, dict[int, int]]]:
        """Model anti-affinity between pods on the same node as a resource with MANY units per node.

        If the pods of a role exclude each other, each of them requests all MANY units of this resource. If two roles
        exclude each other, each pod of one role requests all MANY units, and each pod of the other role requests one
        unit. This is done only if the first of these roles has a single pod, or if its pods also exclude each other.
        """
        pairs = {
            (rule.key, min(self.number[role.name], other), max(self.number[role.name], other))
            for role in self.roles
            for rule in role.anti_affinity
            for other in self._numbers(rule.roles)
            if rule.key in self.own
        }
        found = []
        for key, first, second in sorted(pairs):
            if first == second:
                if self.roles[first].count > 1:
                    found.append((key, {first: MANY}))
                continue
            for single, other in ((first, second), (second, first)):
                if self.roles[single].count == 1 or (key, single, single) in pairs:
                    found.append((key, {single: MANY, other: 1}))
                    break
        return found

    def _is_exclusive(self, key: str, first: int, second: int) -> bool:
        if first == second and self.roles[first].count <= 1:
            return True
        return any(key == known and {first, second} == set(amounts) for known, amounts in self.exclusive)


class _Rounding:
    """Rounds the free amounts of the nodes down to amounts that the job's pods can use up exactly.

    This makes more nodes equal, so there are fewer classes.
    """

    def __init__(self, requests: Sequence[Vector], counts: Vector) -> None:
        *others, self._main = requests
        self._others = [
            sum(count * amount for count, amount in zip(counts, amounts, strict=False))
            for amounts in zip(*others, strict=True)
        ] or [0] * len(self._main)
        self._sums = [
            _sums([(request[number], count) for request, count in zip(others, counts, strict=False)])
            for number in range(len(self._main))
        ]

    def rounded(self, columns: Sequence[Sequence[int]]) -> Iterator[Vector]:
        """Return the free amounts of each node after rounding.

        An amount is also reduced to what the job can request on the node: the sum for all other pods and for as many
        main pods as fit on the node.
        """
        known = [{amount: self._rounded(number, amount) for amount in set(col)} for number, col in enumerate(columns)]
        held = [[pairs[amount][0] for amount in column] for pairs, column in zip(known, columns, strict=True)]
        most = held[0] if len(held) == 1 else list(map(min, *held))
        limited = []
        for number, (pairs, column) in enumerate(zip(known, columns, strict=True)):
            main, others = self._main[number], self._others[number]
            limits = {pods: pods * main + others for pods in set(most)}
            limited.append([min(pairs[amount][1], limits[pods]) for amount, pods in zip(column, most, strict=True)])
        return zip(*limited, strict=True)

    def _rounded(self, number: int, free: int) -> tuple[int, int]:
        """Return how many main pods fit into a free amount of a resource, and the amount rounded down.

        The rounded amount is the largest sum of requests of the job's pods that is not above the free amount.

        If the node is over-committed in the resource, it has no room for pods that request it. Other pods ignore the
        resource.
        """
        free, amount = max(0, free), self._main[number]
        if not amount:
            return MANY, max((taken for taken in self._sums[number] if taken <= free), default=free)
        taken = (others + (free - others) // amount * amount for others in self._sums[number] if others <= free)
        return free // amount, max(taken, default=free)


def _sums(amounts: Sequence[tuple[int, int]]) -> set[int]:
    """Sum up the requests of each subset of these pods, and return the set of these sums.

    Return an empty set if there may be more than MANY_SUMS different sums.

    `amounts` are (request, count) pairs.
    """
    found = {0}
    for amount, count in amounts:
        if len(found) * (count + 1) > MANY_SUMS:
            return set()
        found = {taken + number * amount for taken in found for number in range(count + 1)}
    return found
