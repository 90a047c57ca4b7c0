"""Search all that the scheduler may arrive at, pod by pod."""

from __future__ import annotations

import random
from math import prod

from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.node_classes import Compact
from distrain.solver.prune import Prospects
from distrain.solver.states import State, States

WALKS = 24
# A node's vectors of pods are walked through one by one, and kinds of nodes with each step.
LARGEST_VECTORS = 1 << 12
LARGEST_KINDS = 1 << 8


class Search:
    """The search through the states of one question."""

    def __init__(self, question: Compact, budget: Budget) -> None:
        if prod(count + 1 for count in question.counts) > LARGEST_VECTORS or len(question.kinds) > LARGEST_KINDS:
            raise ExhaustedError
        self._budget, self._states = budget, States(question)
        self._prospects = Prospects(self._states)

    def walks(self) -> set[bool]:
        """Place all pods at random some times, and return whether that gets stuck."""
        start = self._states.start()
        found: set[bool] = set()
        for seed in range(WALKS):
            found.add(self._walk(start, random.Random(seed)))
            if len(found) > 1 or self._prospects.end(start) is not None:
                break
        return found

    def _walk(self, state: State, chance: random.Random) -> bool:
        """Place pods at random, and return whether that gets stuck."""
        while moves := self._states.moves(state):
            self._budget.spend(len(moves))
            state = self._states.placed(state, chance.choice(moves))
        return any(state.left)

    def reaches(self, *, stuck: bool) -> bool:
        """Return whether an end that is stuck, or one with all pods placed, can be reached."""
        start = self._states.start()
        seen = {start}
        todo = [start]
        while todo:
            state = todo.pop()
            end = self._prospects.end(state)
            moves = self._states.moves(state) if end is None else []
            if end == stuck or (end is None and stuck and not moves):
                return True
            for move in moves:
                self._budget.spend(10)
                following = self._states.placed(state, move)
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return False
