"""Define what a framework's program gives to a run to save and resume: its state as named arrays."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from distrain_trainer.checkpoint.arrays import Arrays, Cuts, Fields


class State(Protocol):
    """The state that a framework keeps between steps, as named arrays.

    The names of the model's arrays begin with `model.`. No state of random numbers is saved: each step's seed follows
    from the run's seed and the samples seen, which are in the manifest.
    """

    def fields(self) -> Fields:
        """Return the type and shape of each array. An optimizer may have no arrays before its first step."""

    def later_fields(self) -> Fields:
        """Return the type and shape of each array that the optimizer adds for a weight at its first step.

        Its name is the weight's, with `optimizer.` before and a part after it.
        """

    def trained_bytes(self) -> int:
        """Return the bytes of all weights that are trained, each counted once."""

    def wait(self) -> None:
        """Wait until the last step's computations are complete."""

    def unshared(self) -> Collection[str]:
        """Return the names of the arrays that may differ between ranks that train together.

        For example batch normalization statistics. Checkpoints hold those of rank 0.
        """

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        """Copy each array, or the piece of it that `cuts` names, to the array of the same name in host memory."""

    def load(self, arrays: Arrays) -> None:
        """Load a saved state, whose arrays are those of this one. The next `copy` overwrites their memory."""

    def former(self, content: bytes) -> Arrays:
        """Return the arrays of a checkpoint of format 1, which is a file in the framework's own format."""
