"""Which rank trains on which sample at which step. Every rank computes the same result, without communication.

Each epoch has its own order of all samples, and each rank takes one contiguous run of that order. So a rank opens only
the shards in which its run lies. The state is a few numbers, from which a resumed run computes what is already trained:
if the number of ranks changes during an epoch, the samples that are left are divided again among the new ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Samples of shards wait in memory, compressed, in a shuffle buffer of this size: a larger one shuffles better.
SHUFFLE_BUFFER = 1000

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """Steps that so many ranks made of an epoch together, each with a batch of this size."""

    ranks: int
    batch_size: int
    steps: int

    def is_of(self, ranks: int, batch_size: int) -> bool:
        return (self.ranks, self.batch_size) == (ranks, batch_size)


@dataclass(frozen=True)
class Part:
    """One rank's part of an epoch.

    `reading` are its samples in the order in which they are read. `steps` are the same ones in the order in which they
    are trained on, step by step, each with the number of samples that all ranks have together in that step.
    """

    epoch: int
    reading: Indices
    steps: list[tuple[Indices, int]]


def part_of_epoch(
    samples: int,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    rank: int,
    ranks: int,
    shards: Sequence[int] = (),
    made: Sequence[Segment] = (),
) -> Part:
    """Return a rank's part of what `made` has left of an epoch.

    `shards` are the sizes of the files that the samples lie in, where they are read in a row. All ranks make equally
    many steps. In the last ones a rank may have fewer samples than others, or none: runs differ by one sample at most.
    """
    sampler = EpochSampler(seed, epoch, is_in_a_row=bool(shards))
    left = sampler.order(samples, shards)
    earlier, skipped = split(made, batch_size, ranks=ranks)
    for number, segment in enumerate(earlier):
        left = sampler.left_after(left, segment, number)
    reading, order = sampler.run(left, len(earlier), rank=rank, ranks=ranks)
    steps = [
        (order[start : start + batch_size], count_of_step(len(left), start, batch_size, ranks=ranks))
        for start in range(skipped * batch_size, longest_run(len(left), ranks), batch_size)
    ]
    return Part(epoch, without(reading, order[: skipped * batch_size]), steps)


def split(made: Sequence[Segment], batch_size: int, *, ranks: int) -> tuple[Sequence[Segment], int]:
    """Return the segments that are over, and the steps made of one that goes on, as the sizes are still the same."""
    if made and made[-1].is_of(ranks, batch_size):
        return made[:-1], made[-1].steps
    return made, 0


def count_steps_left(samples: int, batch_size: int, *, ranks: int, made: Sequence[Segment] = ()) -> int:
    """Return how many steps so many ranks make of what `made` has left of an epoch."""
    earlier, skipped = split(made, batch_size, ranks=ranks)
    for segment in earlier:
        samples -= count_of_step(samples, 0, segment.steps * segment.batch_size, ranks=segment.ranks)
    return -(-longest_run(samples, ranks) // batch_size) - skipped


@dataclass(frozen=True)
class EpochSampler:
    """The order of one epoch's samples, and its division among the ranks."""

    seed: int
    epoch: int
    is_in_a_row: bool

    def order(self, samples: int, shards: Sequence[int]) -> Indices:
        if self.is_in_a_row:
            return order_of_shards(shards, seed=self.seed, epoch=self.epoch)
        return np.random.default_rng((self.seed, self.epoch)).permutation(samples)

    def run(self, left: Indices, number: int, *, rank: int, ranks: int) -> tuple[Indices, Indices]:
        """Return a rank's run of what is left, as it is read and as it is trained on, in the segment of a number."""
        reading = left[run_of(len(left), rank=rank, ranks=ranks)]
        if not self.is_in_a_row:
            return reading, reading
        random = np.random.default_rng((self.seed, self.epoch, rank, number))
        return reading, through_buffer(reading, SHUFFLE_BUFFER, random)

    def left_after(self, left: Indices, segment: Segment, number: int) -> Indices:
        """Return what a segment leaves, in the order in which it would have been read."""
        rests = []
        for rank in range(segment.ranks):
            reading, order = self.run(left, number, rank=rank, ranks=segment.ranks)
            rests.append(without(reading, order[: segment.steps * segment.batch_size]))
        return np.concatenate(rests)


def without(reading: Indices, trained: Indices) -> Indices:
    return reading[~np.isin(reading, trained)]


def longest_run(samples: int, ranks: int) -> int:
    return -(-samples // ranks)


def part_of_tests(samples: int, batch_size: int, *, rank: int, ranks: int) -> Part:
    """Return a rank's part of the test samples, as they lie. Ranks may make different numbers of steps."""
    mine = np.arange(samples)[run_of(samples, rank=rank, ranks=ranks)]
    parts = [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)]
    return Part(0, mine, [(part, len(part)) for part in parts])


def run_of(samples: int, *, rank: int, ranks: int) -> slice:
    """Return which places of the epoch's order are a rank's: contiguous, and as many as another's or one fewer."""
    return slice(samples * rank // ranks, samples * (rank + 1) // ranks)


def count_of_step(samples: int, start: int, batch_size: int, *, ranks: int) -> int:
    """Return how many samples all ranks have together in the step that begins at place `start` of their runs."""
    shorter, longer_runs = divmod(samples, ranks)
    of_shorter, of_longer = (min(batch_size, max(0, length - start)) for length in (shorter, shorter + 1))
    return (ranks - longer_runs) * of_shorter + longer_runs * of_longer


def order_of_shards(sizes: Sequence[int], *, seed: int, epoch: int) -> Indices:
    """Return all samples with the shards in an order of the epoch's, and each shard's samples as they lie in it."""
    starts = np.cumsum([0, *sizes])
    order = np.random.default_rng((seed, epoch)).permutation(len(sizes))
    return np.concatenate([np.arange(starts[shard], starts[shard + 1]) for shard in order])


def through_buffer(run: Indices, size: int, random: np.random.Generator) -> Indices:
    """Return the run as it leaves a shuffle buffer: each one drawn from `size` that were read and not drawn yet."""
    buffer, waiting = run[:size].tolist(), iter(run[size:].tolist())
    drawn = []
    for share in random.random(len(run)):
        place = int(share * len(buffer))
        drawn.append(buffer[place])
        buffer[place] = next(waiting, buffer[-1])
        if len(drawn) + len(buffer) > len(run):
            buffer.pop()
    return np.array(drawn, dtype=np.int64)
