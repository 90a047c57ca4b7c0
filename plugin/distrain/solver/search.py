"""Search the states that the scheduler can reach, pod by pod."""

from __future__ import annotations

import random

from distrain.solver.budget import Budget
from distrain.solver.node_classes import Problem
from distrain.solver.prune import Pruning
from distrain.solver.states import Move, State, States

WALKS = 24


class Search:
    def __init__(self, problem: Problem, budget: Budget) -> None:
        self._budget, self._states = budget, States(problem, budget)
        self._pruning = Pruning(self._states)
        self._facts = 1 + len(problem.censuses)

    def walks(self) -> set[bool]:
        """Simulate the scheduling several times, with a random choice at each pod.

        Return a set of outcomes. It contains True if in some simulation a pod found no node, and False if some
        simulation placed all pods.
        """
        start = self._states.start()
        found: set[bool] = set()
        for seed in range(WALKS):
            found.add(self._walk(start, random.Random(seed)))
            if len(found) > 1 or self._end(start) is not None:
                break
        return found

    def _walk(self, state: State, chance: random.Random) -> bool:
        """Place pods at random until no further pod can be placed. Return whether a pod is left over."""
        while moves := self._moves(state):
            state = self._placed(state, chance.choice(moves))
        return any(state.left)

    def reaches(self, *, stuck: bool) -> bool:
        """Tell whether some scheduling order leaves a pod without a node (`stuck`), or places all (not `stuck`)."""
        start = self._states.start()
        seen = {start}
        todo = [start]
        while todo:
            state = todo.pop()
            end = self._end(state)
            moves = self._moves(state) if end is None else []
            if end == stuck or (end is None and stuck and not moves):
                return True
            for move in moves:
                following = self._placed(state, move)
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return False

    # Each of the next three methods spends budget: for every kind of node in the state, it reads one count per rule.
    def _end(self, state: State) -> bool | None:
        self._budget.spend(self._visited(state) * (1 + sum(map(bool, state.left))))
        return self._pruning.end(state)

    def _moves(self, state: State) -> list[Move]:
        self._budget.spend(self._visited(state))
        return self._states.moves(state)

    def _placed(self, state: State, move: Move) -> State:
        self._budget.spend(10 + self._visited(state))
        return self._states.placed(state, move)

    def _visited(self, state: State) -> int:
        return sum(map(len, state.cells)) * self._facts
