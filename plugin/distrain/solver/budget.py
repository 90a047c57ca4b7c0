"""Limit the steps of a search, so that it ends within seconds, with or without an answer."""

from __future__ import annotations


class ExhaustedError(Exception):
    """The search has used up its budget."""


class Budget:
    """The steps that a search may still take."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def spend(self, steps: int) -> None:
        """Take steps from the budget; raise ExhaustedError if too few are left."""
        self._steps -= steps
        if self._steps < 0:
            raise ExhaustedError
