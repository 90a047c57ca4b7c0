"""Spread a total of GPUs over workers of equal size.

Numbers alone; `room.py` says what the nodes hold. A worker never spans nodes, so it is at most as large as the largest
of them. Of the even splits the one with the fewest workers is taken: whole nodes where the total is a multiple of a
node's GPUs, and their largest equal parts where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

# The most workers that the chart's schema allows.
MOST_WORKERS = 1000

Fits = Callable[["Split"], bool]


class Split(Struct, frozen=True):
    """So many workers of so many GPUs each."""

    replicas: int
    gpus: int

    @property
    def total(self) -> int:
        return self.replicas * self.gpus

    def __str__(self) -> str:
        return f"{self.replicas} worker{'s' if self.replicas != 1 else ''} of {self.gpus}"


class Limits(Struct, frozen=True):
    """What a split has to keep to: GPUs of a worker at most, number of workers, and what the user has set."""

    largest: int
    fewest: int = 1
    most: int = MOST_WORKERS
    replicas: int | None = None
    gpus: int | None = None

    def allow(self, split: Split) -> bool:
        fixed = self.replicas in (None, split.replicas) and self.gpus in (None, split.gpus)
        # A size that the user has set is not ours to judge.
        small = split.gpus <= self.largest or self.gpus is not None
        return fixed and small and self.fewest <= split.replicas <= self.most


def splits(total: int, limits: Limits) -> Iterator[Split]:
    """Yield the even splits of a total above 0, the fewest workers first."""
    each = limits.gpus or limits.largest
    fewest, most = -(-total // each), min(total, limits.most)
    for replicas in [limits.replicas] if limits.replicas else range(fewest, most + 1):
        if total % replicas == 0 and limits.allow(split := Split(replicas, total // replicas)):
            yield split


def first(total: int, limits: Limits, fits: Fits) -> Split | None:
    return next((split for split in splits(total, limits) if fits(split)), None)


def nearest(total: int, limits: Limits, fits: Fits) -> list[Split]:
    """Return the splits of the nearest totals below and above that have one; either may be missing."""
    most = (limits.replicas or limits.most) * (limits.gpus or limits.largest)
    # One step of the figure that is fixed, or a node more, is as far as the next one above can be.
    farthest = max(total + (limits.replicas or limits.gpus or limits.largest), limits.fewest * (limits.gpus or 1))
    below = (first(other, limits, fits) for other in range(min(total - 1, most), 0, -1))
    above = (first(other, limits, fits) for other in range(total + 1, min(farthest, most) + 1))
    found = [next((split for split in side if split), None) for side in (below, above)]
    return [split for split in found if split]


def whole_nodes(total: int, node: int) -> list[int]:
    """Return the nearest totals, below and above, that fill nodes of so many GPUs; none where the total itself does."""
    rest = total % node
    return [other for other in (total - rest, total - rest + node) if other] if rest else []
