"""Count the pods that fit if the job has no rules between its pods, so that only resources matter.

Without rules, pods can be placed in any order, and a node that is full stays full. Each of the two answers is a sum of
numbers of main pods, one number per node. These numbers depend on the pods of the other roles on the nodes, so pareto
computes the sums for all combinations of these pods:

- The largest number of main pods that fit together with all other pods. For each node, this adds up the main pods that
  fit beside the node's other pods.
- The smallest number of main pods that can fill all nodes, together with other pods, so that a pod of some role finds
  no node. If the job has fewer main pods, every pod finds a node, wherever the scheduler has placed the earlier pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from distrain.solver.budget import Budget
from distrain.solver.pareto import Options, Vector, fewest, most


class Slot(Struct, frozen=True):
    """Nodes that are equal for the job: their free amounts of requested resources, and the roles that they admit."""

    free: Vector
    admits: tuple[bool, ...]


class Case(Struct, frozen=True):
    """A problem without rules. The main role is last in `requests` and in `counts`."""

    slots: Mapping[Slot, int]
    requests: Sequence[Vector]
    counts: Vector

    def room(self, free: Vector, slot: Slot, role: int) -> int:
        if not slot.admits[role]:
            return 0
        return min(left // amount for left, amount in zip(free, self.requests[role], strict=True) if amount)

    def room_in_all(self, role: int) -> int:
        return sum(self.room(slot.free, slot, role) * number for slot, number in self.slots.items())


def packed(case: Case, budget: Budget) -> int | None:
    """Return the largest number of main pods that fit together with all other pods.

    Return None if not all other pods fit.
    """
    counts = case.counts[:-1]
    if any(case.room_in_all(role) < count for role, count in enumerate(counts)):
        return None
    placements = ((_placements(case, slot, budget), number) for slot, number in case.slots.items())
    return most(placements, counts, budget)


def sure(case: Case, budget: Budget) -> int:
    """Return the largest number of main pods for which every pod of the job finds a node, in every scheduling order."""
    last, found = len(case.counts) - 1, case.counts[-1]
    for role in range(len(case.counts)):
        needed = shutting_out(case, role, case.slots, budget)
        if needed is not None:
            found = min(found, needed if role == last else needed - 1)
    return found


def shutting_out(case: Case, role: int, slots: Mapping[Slot, int], budget: Budget) -> int | None:
    """Return the fewest main pods that can fill all nodes, together with other pods, so that the role finds no node.

    Return None if the job has too few pods to fill all nodes in this way.
    """
    # The pod that finds no node is not one of the placed pods.
    limits = tuple(limit - (role == other) for other, limit in enumerate(case.counts))
    open_slots = [(slot, number) for slot, number in slots.items() if case.room(slot.free, slot, role)]
    budget.spend(len(slots))
    largest = [max(amounts) for amounts in zip(*case.requests, strict=True)]
    if sum(_pods_to_close(case, slot, role, largest) * number for slot, number in open_slots) > sum(limits):
        return None
    closings = ((_closings(case, slot, role, budget), number) for slot, number in open_slots)
    return fewest(closings, limits[:-1], limits[-1], budget)


def less(free: Vector, request: Vector, number: int = 1) -> Vector:
    return tuple(amount - number * asked for amount, asked in zip(free, request, strict=True))


def _pods_to_close(case: Case, slot: Slot, role: int, largest: Sequence[int]) -> int:
    """Return a lower bound for the number of pods that must run on a node before the role finds no room there.

    No pod requests more than `largest`.
    """
    asked = zip(slot.free, case.requests[role], largest, strict=True)
    return min((free - amount) // most_taken + 1 for free, amount, most_taken in asked if amount)


def _placements(case: Case, slot: Slot, budget: Budget) -> Options:
    """For each combination of other pods on a node of this kind, return how many main pods fit beside them."""
    main = len(case.counts) - 1
    return {others: case.room(free, slot, main) for others, free in _fillings(case, slot, budget)}


def _closings(case: Case, slot: Slot, role: int, budget: Budget) -> Options:
    """For each combination of other pods on a node, count the main pods after which no pod of the role fits there."""
    options: Options = {}
    main = len(case.counts) - 1
    for others, free in _fillings(case, slot, budget):
        if not case.room(free, slot, role):
            options[others] = 0
            continue
        pairs = zip(free, case.requests[role], case.requests[main], strict=True)
        needed = min((left - asked) // amount + 1 for left, asked, amount in pairs if asked and amount)
        if needed <= case.room(free, slot, main):
            options[others] = needed
    return options


def _fillings(case: Case, slot: Slot, budget: Budget) -> Iterator[tuple[Vector, Vector]]:
    """Yield each combination of other pods that fits on a node of this kind, with the free amounts that remain."""
    partial: list[tuple[Vector, Vector]] = [((), slot.free)]
    for role, count in enumerate(case.counts[:-1]):
        rooms = [min(count, case.room(free, slot, role)) for _, free in partial]
        budget.store(sum(rooms) + len(rooms), len(case.counts) + len(slot.free))
        partial = [
            ((*numbers, number), less(free, case.requests[role], number))
            for (numbers, free), room in zip(partial, rooms, strict=True)
            for number in range(room + 1)
        ]
    yield from partial
