"""Limit the work of one judgement, so that it ends within seconds, whether or not it has an answer.

The work is counted and not timed, so the same job on the same nodes gets the same answer on a slow machine. A step
takes less than a microsecond. The limit on steps limits the memory as well, because storing a result also costs steps.
"""

from __future__ import annotations

# One judgement may take at most BUDGET steps of computation.
BUDGET = 10_000_000
# At most MOST_STORED numbers are stored at once; more would take over 150 MB.
MOST_STORED = 4_000_000


class ExhaustedError(Exception):
    """The computation has used up its budget."""


class Budget:
    """The number of steps that a computation may still take.

    Steps that a part of a budget spends are also subtracted from the whole budget.
    """

    def __init__(self, steps: int, whole: Budget | None = None) -> None:
        self._steps, self._left, self._whole = steps, steps, whole

    def part(self, divisor: int) -> Budget:
        """Return a budget for one of several computations: at most this fraction of the whole budget."""
        return Budget(self._steps // divisor, self)

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget; raise ExhaustedError if too few are left."""
        self._left -= steps
        if self._whole:
            self._whole.spend(steps)
        if self._left < 0:
            raise ExhaustedError

    def store(self, results: int, numbers: int) -> None:
        """Subtract the steps that it takes to compute and store `results` results, each with `numbers` numbers."""
        if results * (4 + numbers) > MOST_STORED:
            raise ExhaustedError
        self.spend(results * (1 + numbers // 4))
