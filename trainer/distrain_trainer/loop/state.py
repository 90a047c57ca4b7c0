"""Define the interface to the state that a run saves and resumes: named arrays in every framework."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from distrain_trainer.checkpoint.arrays import Arrays, Cuts, Fields


class State(Protocol):
    """The state that a framework keeps between steps, as named arrays.

    The names of the model's arrays begin with `model.`. The state of random number generators is not saved. The seed of
    each step is computed from the run's seed and the number of samples seen, which the manifest contains.
    """

    def fields(self) -> Fields:
        """Return the type and shape of each array. An optimizer may have no arrays before its first step."""

    def later_fields(self) -> Fields:
        """Return the type and shape of each array that the optimizer adds for a weight at its first step.

        The name of such an array consists of `optimizer.`, the name of the weight, and one more part.
        """

    def trained_bytes(self) -> int:
        """Return the total size of all trained weights in bytes. A weight that is used twice is counted once."""

    def wait(self) -> None:
        """Wait until the last step is completely computed."""

    def unshared(self) -> Collection[str]:
        """Return the names of the arrays whose values may differ between the ranks of one run.

        For example, the statistics of batch normalization may differ. Checkpoints contain rank 0's values of these
        arrays.
        """

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        """Copy each array into the array of the same name in `into`.

        If `cuts` contains a piece of an array, copy only this piece.
        """

    def load(self, arrays: Arrays) -> None:
        """Load a saved state that has the same arrays as this state.

        Do not keep `arrays`: the next `copy` overwrites their memory.
        """

    def former(self, content: bytes) -> Arrays:
        """Decode a checkpoint of format 1, which is a file in the framework's own format, and return its arrays."""
