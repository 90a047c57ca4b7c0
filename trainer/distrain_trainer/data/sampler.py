"""Decide which rank trains on which sample at which step. Every rank computes the same result, without communication.

Each epoch has its own order of all samples, and each rank takes a contiguous slice of that order. So a rank opens only
the shards that its slice covers. A few numbers, the segments, describe the progress within an epoch. A resumed run
computes from the segments which samples are left. If the number of ranks changes during an epoch, the samples that are
left are divided among the new ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Number of samples in the shuffle buffer, if that many fit in memory. The samples in it are still compressed, as in the
# shards. The larger the buffer, the better the samples are shuffled.
SHUFFLE_BUFFER = 1000

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """Consecutive steps of an epoch with the same number of ranks and the same batch size per rank."""

    ranks: int
    batch_size: int
    steps: int

    def is_of(self, ranks: int, batch_size: int) -> bool:
        return (self.ranks, self.batch_size) == (ranks, batch_size)


@dataclass(frozen=True)
class Part:
    """One rank's samples of an epoch.

    `reading` are the rank's samples in the order in which they are read. `steps` are the same samples in the order of
    training. For each step, `steps` contains the samples of this rank, and the number of samples of all ranks together.
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
    shuffle_buffer: int = SHUFFLE_BUFFER,
    made: Sequence[Segment] = (),
) -> Part:
    """Return a rank's part of an epoch. `made` are the segments made so far; their samples are left out.

    `shards` contains the number of samples in each file that is read sequentially, and is empty for other formats. A
    buffer of `shuffle_buffer` samples shuffles the samples of these files. All ranks make the same number of steps. The
    ranks' slices differ in length by at most one sample. So in the last step, a rank may have fewer samples than other
    ranks, or none.
    """
    sampler = EpochSampler(seed, epoch, shuffle_buffer if shards else 0)
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
    """Return the completed segments, and the number of steps made in the current segment.

    The last segment is the current one if it has the same number of ranks and the same batch size as now.
    """
    if made and made[-1].is_of(ranks, batch_size):
        return made[:-1], made[-1].steps
    return made, 0


def count_steps_left(samples: int, batch_size: int, *, ranks: int, made: Sequence[Segment] = ()) -> int:
    """Return how many steps are left in an epoch if it continues with `ranks` ranks.

    `made` are the segments made so far.
    """
    earlier, skipped = split(made, batch_size, ranks=ranks)
    return -(-longest_run(count_samples_left(samples, earlier), ranks) // batch_size) - skipped


def count_samples_left(samples: int, made: Sequence[Segment]) -> int:
    """Return how many samples are left in an epoch. `made` are the segments made so far."""
    for segment in made:
        samples -= count_of_step(samples, 0, segment.steps * segment.batch_size, ranks=segment.ranks)
    return samples


@dataclass(frozen=True)
class EpochSampler:
    """The order of the samples in one epoch, and how the order is divided among the ranks.

    `shuffle_buffer` is the number of samples in the shuffle buffer. It is 0 if samples need not be read sequentially.
    """

    seed: int
    epoch: int
    shuffle_buffer: int

    def order(self, samples: int, shards: Sequence[int]) -> Indices:
        if self.shuffle_buffer:
            return order_of_shards(shards, seed=self.seed, epoch=self.epoch)
        return np.random.default_rng((self.seed, self.epoch)).permutation(samples)

    def run(self, left: Indices, number: int, *, rank: int, ranks: int) -> tuple[Indices, Indices]:
        """Return a rank's slice of the samples in `left`, once in reading order and once in training order."""
        reading = left[run_of(len(left), rank=rank, ranks=ranks)]
        if not self.shuffle_buffer:
            return reading, reading
        random = np.random.default_rng((self.seed, self.epoch, rank, number))
        return reading, through_buffer(reading, self.shuffle_buffer, random)

    def left_after(self, left: Indices, segment: Segment, number: int) -> Indices:
        """Return the samples in `left` that a segment has not used, in reading order."""
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
    """Return a rank's part of the test samples, in the order in which they are stored.

    A rank may need one step more than another rank.
    """
    mine = np.arange(samples)[run_of(samples, rank=rank, ranks=ranks)]
    parts = [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)]
    return Part(0, mine, [(part, len(part)) for part in parts])


def run_of(samples: int, *, rank: int, ranks: int) -> slice:
    """Return a rank's slice of the epoch's order. Slices are contiguous, and their lengths differ by at most one."""
    return slice(samples * rank // ranks, samples * (rank + 1) // ranks)


def count_of_step(samples: int, start: int, batch_size: int, *, ranks: int) -> int:
    """Return how many samples all ranks together use in a step.

    Each rank's samples begin at index `start` of its slice.
    """
    shorter, longer_runs = divmod(samples, ranks)
    of_shorter, of_longer = (min(batch_size, max(0, length - start)) for length in (shorter, shorter + 1))
    return (ranks - longer_runs) * of_shorter + longer_runs * of_longer


def order_of_shards(sizes: Sequence[int], *, seed: int, epoch: int) -> Indices:
    """Return all samples: the shards in random order, and within each shard the samples in stored order."""
    starts = np.cumsum([0, *sizes])
    order = np.random.default_rng((seed, epoch)).permutation(len(sizes))
    return np.concatenate([np.arange(starts[shard], starts[shard + 1]) for shard in order])


def through_buffer(run: Indices, size: int, random: np.random.Generator) -> Indices:
    """Shuffle samples with a buffer of `size` samples: draw one at random, then put the next sample into the buffer."""
    buffer, waiting = run[:size].tolist(), iter(run[size:].tolist())
    drawn = []
    for share in random.random(len(run)):
        place = int(share * len(buffer))
        drawn.append(buffer[place])
        buffer[place] = next(waiting, buffer[-1])
        if len(drawn) + len(buffer) > len(run):
            buffer.pop()
    return np.array(drawn, dtype=np.int64)
