"""Store which combinations of pods still fit on a node.

A combination is a vector: the number of pods of each role. A set of vectors is an integer that has one bit for each
possible vector.

When a pod is placed, the bits are shifted, so that each vector has one pod less. A mask removes the vectors that
contain more pods than are still to be placed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from itertools import product
from math import prod

from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.closed_form import less
from distrain.solver.node_classes import MANY, NodeClass, Problem
from distrain.solver.pareto import Vector

# If a problem has more vectors than this, no sets of vectors are stored: almost every node would need a set of its own.
LARGEST = 1 << 12


class Vectors:
    """The vectors of one problem (numbers of pods of each role on a node), and cached answers about sets of them."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        if prod(count + 1 for count in problem.counts) > LARGEST:
            raise ExhaustedError
        self._problem, self._case, self._budget = problem, problem.case(), budget
        self.strides = [prod(count + 1 for count in problem.counts[:role]) for role in range(len(problem.counts))]
        self._sizes = self._pods_of_vectors()
        self.box = cache(self._boxed)
        self.fewest_to_close = cache(self._fewest_to_close)
        self.most = cache(self._most_of)

    def takes(self, kind: NodeClass) -> int:
        """Return, as a bit set, all vectors (numbers of pods per role) that fit together on a node of this class."""
        counts, slot = self._problem.counts, kind.slot
        # Go through all combinations of the other roles' counts. For each of them, the last role can have any count
        # from zero to the room that is left on the node. These counts are a run of consecutive bits.
        run = counts.index(max(counts))
        partial = [(0, slot.free)]
        for role, request in enumerate(self._problem.requests):
            if role != run:
                partial = [
                    (bits + number * self.strides[role], less(free, request, number))
                    for bits, free in partial
                    for number in range(min(counts[role], self._case.room(free, slot, role)) + 1)
                ]
        self._budget.spend(len(partial) * len(slot.free))
        rooms = ((bits, min(counts[run], self._case.room(free, slot, run))) for bits, free in partial)
        return sum(self.box(self._only(run, room)) << bits for bits, room in rooms)

    def _only(self, role: int, count: int) -> Vector:
        return tuple(count * (role == other) for other in range(len(self._problem.counts)))

    def within(self, takes: int, left: Vector, roles: Collection[int]) -> int:
        """Return the vectors that contain only pods of these roles, and at most the pods left to place."""
        return takes & self.box(tuple(number if role in roles else 0 for role, number in enumerate(left)))

    def _boxed(self, left: Vector) -> int:
        """Return all vectors whose counts are at most these counts."""
        bits = 1
        for number, stride in zip(left, self.strides, strict=True):
            for _ in range(number):
                bits |= bits << stride
        return bits

    def _pods_of_vectors(self) -> list[int]:
        counts = self._problem.counts
        # The counts form a mixed-radix number; the first role is the least significant digit.
        return [sum(vector) for vector in product(*(range(count + 1) for count in reversed(counts)))]

    def _fewest_to_close(self, takes: int, role: int, left: Vector) -> int:
        """Return the fewest pods that leave no room on the node for one more pod of the role."""
        if not takes >> self.strides[role] & 1:
            return 0
        one_less = self.box((*left[:role], left[role] - 1, *left[role + 1 :]))
        closed = takes & ~(takes >> self.strides[role]) & one_less
        self._budget.spend(10 + closed.bit_count())
        return min((self._sizes[vector] for vector in _members(closed)), default=MANY)

    def _most_of(self, takes: int, role: int | None) -> int:
        """Return the largest number of pods of one role that fit on the node, or of all roles if `role` is None."""
        if role is None:
            self._budget.spend(takes.bit_count())
            return max(self._sizes[vector] for vector in _members(takes))
        number = 0
        while takes >> (number + 1) * self.strides[role] & 1:
            number += 1
        return number


def _members(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
