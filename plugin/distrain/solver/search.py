"""Search the states that the scheduler can reach, pod by pod."""

from __future__ import annotations

import random
from math import prod

from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.node_classes import Problem
from distrain.solver.prune import Pruning
from distrain.solver.states import State, States

WALKS = 24
# Larger problems are not searched, because every step visits all node classes and each vector of each node.
LARGEST_VECTORS = 1 << 12
LARGEST_KINDS = 1 << 8


class Search:
    def __init__(self, problem: Problem, budget: Budget) -> None:
        if prod(count + 1 for count in problem.counts) > LARGEST_VECTORS or len(problem.kinds) > LARGEST_KINDS:
            raise ExhaustedError
        self._budget, self._states = budget, States(problem)
        self._pruning = Pruning(self._states)

    def walks(self) -> set[bool]:
        """Place the pods at random several times; return the outcomes: True for stuck, False for all placed."""
        start = self._states.start()
        found: set[bool] = set()
        for seed in range(WALKS):
            found.add(self._walk(start, random.Random(seed)))
            if len(found) > 1 or self._pruning.end(start) is not None:
                break
        return found

    def _walk(self, state: State, chance: random.Random) -> bool:
        """Place pods at random until no further pod can be placed; return whether a pod is left over."""
        while moves := self._states.moves(state):
            self._budget.spend(len(moves))
            state = self._states.placed(state, chance.choice(moves))
        return any(state.left)

    def reaches(self, *, stuck: bool) -> bool:
        """Tell whether the scheduler can reach a stuck state (`stuck`), or a state with all pods placed."""
        start = self._states.start()
        seen = {start}
        todo = [start]
        while todo:
            state = todo.pop()
            end = self._pruning.end(state)
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
