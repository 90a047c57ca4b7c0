"""Split a total number of GPUs over workers of equal size.

This module reads neither files nor a cluster: all its inputs are numbers. `room.py` knows the nodes. A worker runs on
one node, so it has at most as many GPUs as the largest node. The chosen split is the even split with the fewest
workers: whole nodes if the total is a multiple of a node's GPUs, otherwise the largest equal parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

# The chart's schema allows at most MOST_WORKERS workers.
MOST_WORKERS = 1000

Fits = Callable[["Split"], bool]


class Split(Struct, frozen=True):
    """A number of workers (`replicas`), each with the same number of GPUs."""

    replicas: int
    gpus: int

    @property
    def total(self) -> int:
        return self.replicas * self.gpus

    def __str__(self) -> str:
        return f"{self.replicas} worker{'s' if self.replicas != 1 else ''} of {self.gpus}"


class Limits(Struct, frozen=True):
    """Limits of a split: the most GPUs per worker, the range of the number of workers, and values set by the user."""

    largest: int
    fewest: int = 1
    most: int = MOST_WORKERS
    replicas: int | None = None
    gpus: int | None = None

    def allow(self, split: Split) -> bool:
        fixed = self.replicas in (None, split.replicas) and self.gpus in (None, split.gpus)
        # A number of GPUs that the user set in workers.gpus is accepted, even if no node has so many GPUs.
        small = split.gpus <= self.largest or self.gpus is not None
        return fixed and small and self.fewest <= split.replicas <= self.most


def splits(total: int, limits: Limits) -> Iterator[Split]:
    """Yield the even splits of a total that is above 0. The split with the fewest workers comes first."""
    each = limits.gpus or limits.largest
    fewest, most = -(-total // each), min(total, limits.most)
    for replicas in [limits.replicas] if limits.replicas else range(fewest, most + 1):
        if total % replicas == 0 and limits.allow(split := Split(replicas, total // replicas)):
            yield split


def first(total: int, limits: Limits, fits: Fits) -> Split | None:
    return next((split for split in splits(total, limits) if fits(split)), None)


def nearest(total: int, limits: Limits, fits: Fits) -> list[Split]:
    """Return splits of the nearest smaller and the nearest larger total that can be split, as far as there are any."""
    most = (limits.replicas or limits.most) * (limits.gpus or limits.largest)
    # A larger total that can be split is at most this far away. With a fixed number of workers, each worker gets one
    # more GPU. With a fixed number of GPUs per worker, there is one more worker. Otherwise one more node is filled.
    farthest = max(total + (limits.replicas or limits.gpus or limits.largest), limits.fewest * (limits.gpus or 1))
    below = (first(other, limits, fits) for other in range(min(total - 1, most), 0, -1))
    above = (first(other, limits, fits) for other in range(total + 1, min(farthest, most) + 1))
    found = [next((split for split in side if split), None) for side in (below, above)]
    return [split for split in found if split]


def whole_nodes(total: int, node: int) -> list[int]:
    """Return the nearest numbers of GPUs below and above `total` that fill whole nodes.

    Return an empty list if `total` itself fills whole nodes. `node` is the number of GPUs per node.
    """
    rest = total % node
    return [other for other in (total - rest, total - rest + node) if other] if rest else []
