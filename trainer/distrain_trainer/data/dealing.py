"""Which rank trains on which sample at which step: numbers alone, which every rank computes alike.

An epoch puts all samples in an order of its own, and each rank takes one contiguous run of it. So a rank opens only the
shards that its run lies in, and what was dealt so far can be computed again from the same few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Samples of shards lie on the way in memory, compressed, until their turn: more shuffle better.
SHUFFLE_BUFFER = 1000

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One rank's part of an epoch.

    `reading` are its samples in the order in which they are read. `steps` are the same ones in the order in which they
    are trained on, step by step, each with the number of samples that all ranks have together in that step.
    """

    epoch: int
    reading: Indices
    steps: list[tuple[Indices, int]]


def deal_epoch(
    samples: int, batch_size: int, *, seed: int, epoch: int, rank: int, ranks: int, shards: Sequence[int] = ()
) -> Part:
    """Return a rank's part. `shards` are the sizes of the files that the samples lie in, where they are read in a row.

    All ranks make equally many steps. In the last ones a rank may have fewer samples than others, or none: runs differ
    by one sample at most.
    """
    run = run_of(samples, rank=rank, ranks=ranks)
    if shards:
        reading = order_of_shards(shards, seed=seed, epoch=epoch)[run]
        order = through_buffer(reading, SHUFFLE_BUFFER, np.random.default_rng((seed, epoch, rank)))
    else:
        reading = order = np.random.default_rng((seed, epoch)).permutation(samples)[run]
    longest = -(-samples // ranks)
    steps = [
        (order[start : start + batch_size], count_of_step(samples, start, batch_size, ranks=ranks))
        for start in range(0, longest, batch_size)
    ]
    return Part(epoch, reading, steps)


def deal_tests(samples: int, batch_size: int, *, rank: int, ranks: int) -> Part:
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
