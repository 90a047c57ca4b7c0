"""Represent the states of a job while its pods are placed.

Two states are equal if the scheduler can continue from both in the same ways.

For a node, a state stores only which pods still fit. For a domain, a state stores only the counts that matter for pods
that are not placed yet. Two nodes with equal data are interchangeable, and so are two domains with equal data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from distrain.solver.budget import Budget
from distrain.solver.node_classes import NOWHERE, Problem, Rules
from distrain.solver.packing import Vectors
from distrain.solver.pareto import Vector


class Spot(NamedTuple):
    """What matters about a node. `takes` has one bit for each combination of pods that still fits (see packing).

    `static` is the index of an entry in `States._statics`, which tells for each Census whether it counts the pods on
    the node. For each Census whose domains are single nodes, `values` has the number of counted pods on the node.
    """

    takes: int
    static: int
    values: Vector


Cell = tuple[tuple[Spot, int], ...]
Part = TypeVar("Part", Cell, tuple[Spot, int])


class State(NamedTuple):
    """A state of the scheduling: the pods left to place, the numbers of pods in domains, and what fits on nodes.

    For each Census, `counts` has the number of counted pods in each domain. It is empty if the domains are single
    nodes. `cells` are groups of nodes: for each topology key whose domains may contain several nodes, the nodes of a
    cell are in the same domain.
    """

    left: Vector
    counts: tuple[Vector, ...]
    cells: tuple[Cell, ...]


class Place(NamedTuple):
    """Equal nodes that are in the same topology domains (in one cell), and their number."""

    cell: int
    spot: Spot
    number: int


class Move(NamedTuple):
    """Places one pod of the role on a node. The node is any node of the cell whose data equal `spot`."""

    role: int
    cell: int
    spot: Spot


class States:
    def __init__(self, problem: Problem, budget: Budget) -> None:
        self.problem, self.vectors = problem, Vectors(problem, budget)
        self._statics = sorted({kind.counted for kind in problem.kinds})
        self.keys = [
            problem.shared.index(census.key) if census.key in problem.shared else None for census in problem.censuses
        ]
        self._domains = sorted({kind.domains for kind in problem.kinds})
        if len(problem.shared) == 1:
            self._domains = [(domain,) for domain in range(-1, len(problem.domains[0]))]
        self._twins = self._interchangeable()
        self._used = cache(self._used_by)
        self._parts: dict[Any, Any] = {}

    def start(self) -> State:
        problem = self.problem
        cells: list[Counter[Spot]] = [Counter() for _ in self._domains]
        for kind, number in problem.kinds.items():
            spot = Spot(self.vectors.takes(kind), self._statics.index(kind.counted), kind.values)
            cells[self._domains.index(kind.domains)][spot] += number
        return self._canonical(problem.counts, list(problem.values), cells)

    def moves(self, state: State) -> list[Move]:
        return [
            Move(role, cell, spot)
            for role, left in enumerate(state.left)
            if left
            for cell, spot in self._open(state, role, self.problem.rules[role])
        ]

    def placed(self, state: State, move: Move) -> State:
        role, cell, spot = move
        left = (*state.left[:role], state.left[role] - 1, *state.left[role + 1 :])
        counts, values = list(state.counts), list(spot.values)
        for number, census in enumerate(self.problem.censuses):
            if role not in census.roles or not self.counts(spot, number):
                continue
            key = self.keys[number]
            if key is None:
                values[number] = 1 if census.flag else values[number] + 1
            elif (domain := self._domains[cell][key]) >= 0:
                before = counts[number]
                value = 1 if census.flag else before[domain] + 1
                counts[number] = (*before[:domain], value, *before[domain + 1 :])
        cells = [Counter(dict(spots)) for spots in state.cells]
        cells[cell][spot] -= 1
        cells[cell][Spot(spot.takes >> self.vectors.strides[role], spot.static, tuple(values))] += 1
        return self._canonical(left, counts, cells)

    def _open(self, state: State, role: int, rules: Rules) -> Iterator[tuple[int, Spot]]:
        stride = self.vectors.strides[role]
        first = rules.affinity is not None and rules.affinity.first and not self.any_meets_affinity(state, rules)
        for cell, spots in enumerate(state.cells):
            for spot, _ in spots:
                if spot.takes >> stride & 1 and self.allowed(state, rules, first, cell, spot):
                    yield cell, spot

    def allowed(self, state: State, rules: Rules, first: bool, cell: int, spot: Spot) -> bool:
        if rules.affinity and not first and any(self.value(state, c, cell, spot) <= 0 for c in rules.affinity.censuses):
            return False
        if any(self.value(state, census, cell, spot) > 0 for census in rules.anti_affinity):
            return False
        return all(self.value(state, rule.census, cell, spot) + rule.own <= rule.max_skew for rule in rules.spread)

    def any_meets_affinity(self, state: State, rules: Rules) -> bool:
        assert rules.affinity
        return any(value > 0 for census in rules.affinity.censuses for value in self.values(state, census))

    def value(self, state: State, census: int, cell: int, spot: Spot) -> int:
        key = self.keys[census]
        if key is None:
            return spot.values[census]
        domain = self._domains[cell][key]
        return state.counts[census][domain] if domain >= 0 else NOWHERE

    def values(self, state: State, census: int) -> Iterable[int]:
        if self.keys[census] is None:
            return [spot.values[census] for spots in state.cells for spot, _ in spots]
        return state.counts[census]

    def domain(self, census: int, place: Place) -> tuple[int, int, Spot | None]:
        """Return a key for the topology domain in which this Census counts the pods on these nodes.

        If each node is its own domain, nodes with equal data get the same key.
        """
        key = self.keys[census]
        return (census, place.cell, place.spot) if key is None else (census, self._domains[place.cell][key], None)

    def counts(self, spot: Spot, census: int) -> bool:
        """Tell whether this Census (a count of pods in each domain) includes the pods on the node."""
        return self._statics[spot.static][census]

    def coming(self, number: int, left: Vector) -> int:
        return sum(left[role] for role in self.problem.censuses[number].roles)

    def binds(self, state: State, number: int) -> bool:
        highest = max(self.values(state, number), default=0)
        return highest + self.coming(number, state.left) > self._skew(number, state.left)

    def _canonical(self, left: Vector, counts: list[Vector], cells: list[Counter[Spot]]) -> State:
        """Return the canonical form of a state.

        Parts that do not matter are removed, and interchangeable parts are sorted.
        """
        box, used, total = self.vectors.box(left), list(self._used(left)), sum(left)
        least = [0] * len(used)
        for number, census in enumerate(self.problem.censuses):
            if used[number] and not census.flag:
                least[number], highest = self._range(number, counts, cells)
                used[number] = highest + self.coming(number, left) - least[number] > self._skew(number, left)
        shared = [
            tuple(value - least[number] if used[number] else 0 for value in values)
            for number, values in enumerate(counts)
        ]
        kept = [self._spots(cell, box, used, least, total) for cell in cells]
        if not any(used[number] and key is not None for number, key in enumerate(self.keys)):
            together: Counter[Spot] = Counter()
            for cell in kept:
                together.update(cell)
            kept = [together, *(Counter[Spot]() for _ in kept[1:])]
        tuples = [
            self._known(tuple(sorted(self._known((spot, min(number, total + 1))) for spot, number in cell.items())))
            for cell in kept
        ]
        return self._ordered(State(left, tuple(shared), tuple(tuples)))

    def _known(self, part: Part) -> Part:
        """If an earlier state has an equal part, return that part, so that thousands of states share the memory."""
        known: Part = self._parts.setdefault(part, part)
        return known

    def _spots(
        self, cell: Counter[Spot], box: int, used: Sequence[bool], least: Sequence[int], total: int
    ) -> Counter[Spot]:
        measured = [
            number
            for number, census in enumerate(self.problem.censuses)
            if used[number] and not census.flag and self.keys[number] is None
        ]
        found: Counter[Spot] = Counter()
        for spot, count in cell.items():
            takes = spot.takes & box
            values = tuple(
                (value if value == NOWHERE else value - least[number]) if used[number] else 0
                for number, value in enumerate(spot.values)
            )
            if not count or (takes == 1 and not measured and all(value <= 0 for value in values)):
                continue
            static = spot.static if measured or (takes > 1 and any(used)) else 0
            found[Spot(takes, static, values)] += count
        return found

    def _ordered(self, state: State) -> State:
        """Sort interchangeable domains.

        Interchangeable domains can be found only if exactly one topology key has domains that may contain several
        nodes.
        """
        if not self._twins:
            return state
        counts, cells = [list(values) for values in state.counts], list(state.cells)
        for twins in self._twins:
            contents = sorted(
                (tuple(values[t] for values in state.counts if values), state.cells[t + 1]) for t in twins
            )
            for domain, (column, cell) in zip(twins, contents, strict=True):
                cells[domain + 1] = cell
                for values, value in zip((values for values in counts if values), column, strict=True):
                    values[domain] = value
        return State(state.left, tuple(map(tuple, counts)), tuple(cells))

    def _interchangeable(self) -> list[list[int]]:
        if len(self.problem.shared) != 1:
            return []
        twins: dict[object, list[int]] = {}
        for domain in range(len(self.problem.domains[0])):
            signature = tuple(flags[domain] for flags in self.problem.measured if flags)
            twins.setdefault(signature, []).append(domain)
        return list(twins.values())

    def _range(self, number: int, counts: Sequence[Vector], cells: Sequence[Counter[Spot]]) -> tuple[int, int]:
        """Return the smallest and the highest count. A spread constraint compares with the smallest count."""
        if self.keys[number] is None:
            spots = [spot for cell in cells for spot, count in cell.items() if count]
            every = [spot.values[number] for spot in spots]
            compared = [spot.values[number] for spot in spots if self.counts(spot, number)]
        else:
            every = list(counts[number])
            compared = [value for value, yes in zip(every, self.problem.measured[number], strict=True) if yes]
        least = 0 if self.problem.censuses[number].from_zero else min(compared, default=0)
        return least, max(every, default=0)

    def _skew(self, number: int, left: Vector) -> int:
        return min(
            rule.max_skew
            for count, rules in zip(left, self.problem.rules, strict=True)
            if count
            for rule in rules.spread
            if rule.census == number
        )

    def _used_by(self, left: Vector) -> tuple[bool, ...]:
        """For each Census (a count of pods), tell whether a rule of a pod that is not placed yet uses it."""
        used: set[int] = set()
        for count, rules in zip(left, self.problem.rules, strict=True):
            if count:
                used.update(rules.affinity.censuses if rules.affinity else ())
                used.update(rules.anti_affinity)
                used.update(rule.census for rule in rules.spread)
        return tuple(number in used for number in range(len(self.problem.censuses)))
