"""Define the capacity of nodes for workers whose size is still to be derived.

`StatedNodes` are the nodes that the user states; `measured.py` reads the nodes of a cluster.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from distrain.derive.split import Split

GIBIBYTE = 2**30


class Room(Protocol):
    """The capacity of the nodes, as far as it is known."""

    @property
    def largest(self) -> int:
        """Return the largest number of GPUs that one worker can have."""

    def fits(self, split: Split) -> bool:
        """Tell whether all workers of the split fit now."""

    def may_fit(self, split: Split) -> bool:
        """Tell whether all workers of the split fit after other pods end."""

    def share(self, split: Split) -> dict[str, str]:
        """Return a worker's share of CPU and memory, as far as it is known."""


class StatedNodes(Struct, frozen=True):
    """An unlimited number of nodes with `largest` GPUs each."""

    largest: int

    def fits(self, split: Split) -> bool:
        return split.gpus <= self.largest

    may_fit = fits

    def share(self, split: Split) -> dict[str, str]:
        return {}
