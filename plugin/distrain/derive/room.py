"""What the nodes hold for workers that are yet to be sized; here as stated, in `measured.py` as a cluster has them."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from distrain.derive.split import Split

GIBIBYTE = 2**30


class Room(Protocol):
    """The nodes, as far as they are known."""

    @property
    def largest(self) -> int:
        """The most GPUs that a worker can have."""

    def fits(self, split: Split) -> bool:
        """Tell whether the workers can be placed now."""

    def may_fit(self, split: Split) -> bool:
        """Tell whether they can once other pods end."""

    def share(self, split: Split) -> dict[str, str]:
        """Return the CPU and memory of a worker, where that is known."""


class StatedNodes(Struct, frozen=True):
    """As many nodes as it takes, of so many GPUs each."""

    largest: int

    def fits(self, split: Split) -> bool:
        return split.gpus <= self.largest

    may_fit = fits

    def share(self, split: Split) -> dict[str, str]:
        return {}
