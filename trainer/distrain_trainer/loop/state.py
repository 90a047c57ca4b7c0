"""Define the interface to the state that a run saves and resumes: a framework's state as named arrays."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from distrain_trainer.checkpoint.arrays import Arrays, Cuts, Fields


class State(Protocol):
    """The state that a framework keeps between steps, as named arrays.

    The names of the model's arrays begin with `model.`. The state of random number generators is not saved: each step's
    seed is computed from the run's seed and the samples seen, which are in the manifest.
    """

    def fields(self) -> Fields:
        """Return the type and shape of each array. An optimizer may have no arrays before its first step."""

    def later_fields(self) -> Fields:
        """Return the type and shape of each array that the optimizer adds for a weight at its first step.

        The name of such an array is `optimizer.`, the weight's name, and one more part.
        """

    def trained_bytes(self) -> int:
        """Return the total bytes of all trained weights, counting each weight once."""

    def wait(self) -> None:
        """Wait until the last step's computations are complete."""

    def unshared(self) -> Collection[str]:
        """Return the names of the arrays that may differ between ranks that train together.

        For example, batch normalization statistics may differ. Checkpoints contain the arrays of rank 0.
        """

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        """Copy each array, or the piece of it that `cuts` names, to the array of the same name in host memory."""

    def load(self, arrays: Arrays) -> None:
        """Load a saved state with the same arrays as this state. The next `copy` overwrites their memory."""

    def former(self, content: bytes) -> Arrays:
        """Return the arrays of a checkpoint of format 1, which is a file in the framework's own format."""
