"""Count whole pods over nodes where pods matter to each other by the room that they take, and by nothing else.

A placement is then open to every order, and a node that is full stays full. Both answers are counted over the nodes
(see pareto), by how many pods of the other roles stand there:

- The most pods of the main role beside all the others: with each number of others on a node go so many main ones.
- The fewest pods of the main role that shut a pod of some role out of every node, the job's other pods being placed
  anywhere. With fewer than that, each pod finds a node whatever came before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from distrain.solver.budget import Budget
from distrain.solver.pareto import Options, Vector, fewest, most


class Slot(Struct, frozen=True):
    """Nodes that are the same to the job: what is free there of what it asks for, and which roles they admit."""

    free: Vector
    admits: tuple[bool, ...]


class Case(Struct, frozen=True):
    """The job against the nodes. `requests` and `counts` hold the main role last."""

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
    """Return the most main pods beside all others; None when not even these fit."""
    counts = case.counts[:-1]
    if any(case.room_in_all(role) < count for role, count in enumerate(counts)):
        return None
    placements = ((_placements(case, slot, budget), number) for slot, number in case.slots.items())
    return most(placements, counts, budget)


def sure(case: Case, budget: Budget) -> int:
    """Return up to how many main pods no pod of the job can be shut out."""
    last, found = len(case.counts) - 1, case.counts[-1]
    for role in range(len(case.counts)):
        needed = shutting_out(case, role, case.slots, budget)
        if needed is not None:
            found = min(found, needed if role == last else needed - 1)
    return found


def shutting_out(case: Case, role: int, slots: Mapping[Slot, int], budget: Budget) -> int | None:
    """Return the fewest main pods that, with others, shut the role's last pod out of these nodes; None: none do."""
    # The pod that is shut out is not among those that do it.
    limits = tuple(limit - (role == other) for other, limit in enumerate(case.counts))
    open_slots = [(slot, number) for slot, number in slots.items() if case.room(slot.free, slot, role)]
    if sum(_pods_to_close(case, slot, role) * number for slot, number in open_slots) > sum(limits):
        return None
    closings = ((_closings(case, slot, role, budget), number) for slot, number in open_slots)
    return fewest(closings, limits[:-1], limits[-1], budget)


def less(free: Vector, request: Vector, number: int = 1) -> Vector:
    return tuple(amount - number * asked for amount, asked in zip(free, request, strict=True))


def _pods_to_close(case: Case, slot: Slot, role: int) -> int:
    """Return a number of pods, of whatever roles, with less than which such a node has room for one of the role."""
    largest: list[int] = [max(amounts) for amounts in zip(*case.requests, strict=True)]
    asked = zip(slot.free, case.requests[role], largest, strict=True)
    return min((free - amount) // most_taken + 1 for free, amount, most_taken in asked if amount)


def _placements(case: Case, slot: Slot, budget: Budget) -> Options:
    """Return how many main pods such a node holds beside each number of others."""
    main = len(case.counts) - 1
    return {others: case.room(free, slot, main) for others, free in _fillings(case, slot, budget)}


def _closings(case: Case, slot: Slot, role: int, budget: Budget) -> Options:
    """Return the fewest main pods that, with each number of others, leave such a node no room for one of the role."""
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
    """Yield each number of other pods that such a node can hold, and what they leave free."""
    partial: list[tuple[Vector, Vector]] = [((), slot.free)]
    for role, count in enumerate(case.counts[:-1]):
        partial = [
            ((*numbers, number), less(free, case.requests[role], number))
            for numbers, free in partial
            for number in range(min(count, case.room(free, slot, role)) + 1)
        ]
        budget.spend(len(partial))
    yield from partial
