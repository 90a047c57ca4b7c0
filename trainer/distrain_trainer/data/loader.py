"""Batches of one rank, read and decoded by threads while the step before is computed."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from distrain_trainer.config import Config
from distrain_trainer.data.formats import Dataset
from distrain_trainer.data.position import Position
from distrain_trainer.data.sampler import Indices, Part, Segment, count_steps_left, part_of_epoch, part_of_tests
from distrain_trainer.data.samples import Pixels, Samples
from distrain_trainer.errors import DamagedError, DataError

# More than the cores of a small machine, as most threads wait for S3.
THREADS = 16
# Prefetched batches: as many as hold this many samples, and at least two.
SAMPLES_AHEAD = 64


@dataclass(frozen=True)
class Batch:
    """One rank's part of a step, of the same shape every step.

    A sample's weight is 0 where it only fills the last batch of an epoch up, or is damaged. Over all ranks the weights
    average 1, whatever each rank's count: so ranks that average their weighted sums get the mean over the global batch.
    """

    images: Pixels
    labels: Indices
    weights: Pixels
    samples: int
    global_samples: int

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing in it is trained on: this rank has no sample left in the epoch's last step."""
        return not self.weights.any()


START = Position()


def count_steps(config: Config, dataset: Dataset, *, ranks: int, start: Position = START) -> int:
    """Return the steps of the run, all its epochs together and those before `start` included.

    A step is a change of the weights by all ranks together, however many they are. So a run of given epochs makes fewer
    steps once it has grown, and a run of given steps sees more samples.

    Raises DataError when there is no batch for all ranks.
    """
    if config.is_synthetic:
        assert config.steps is not None
        return config.steps
    samples, global_batch = len(dataset.train), config.batch_size * ranks
    if samples < ranks:
        raise DataError(
            f"workers.replicas: {ranks} ranks share {samples} training samples of {config.data}; "
            f"lower workers.replicas or workers.gpus"
        )
    if samples < global_batch:
        raise DataError(
            f"trainer.batchSize: {ranks} ranks of {config.batch_size} take {global_batch} samples a step, and "
            f"{config.data} has {samples}; lower trainer.batchSize to {samples // ranks} or less"
        )
    if config.steps is not None:
        return config.steps
    assert config.epochs is not None
    more = config.epochs - start.samples // samples
    if more <= 0:
        return start.step
    of_this_epoch = count_steps_left(samples, config.batch_size, ranks=ranks, made=start.segments)
    return start.step + of_this_epoch + (more - 1) * count_steps_left(samples, config.batch_size, ranks=ranks)


def train_batches(
    config: Config, dataset: Dataset, *, rank: int, ranks: int, start: Position = START
) -> Iterator[Batch]:
    """Yield one rank's batches from a position on, without end. Raises StorageError or DataError on the way."""
    samples, size = dataset.train, config.batch_size
    if config.is_synthetic:
        # One batch of noise again and again, as the training benchmarks do: its speed is real, its loss means nothing.
        everything = Part(0, np.arange(size), [(np.arange(size), size * ranks)])
        return itertools.repeat(next(_batches(samples, [everything], size, ranks, Damage(size, 0))))

    def part(epoch: int, made: Sequence[Segment] = ()) -> Part:
        of = (len(samples), size)
        return part_of_epoch(
            *of, seed=config.seed, epoch=epoch, rank=rank, ranks=ranks, shards=samples.shards, made=made
        )

    first = start.samples // len(samples)
    # Lazily, as each part holds the indices of a whole epoch.
    parts = (part(epoch, start.segments if epoch == first else ()) for epoch in itertools.count(first))
    return _batches(samples, parts, size, ranks, Damage(len(samples), config.max_bad_share))


def evaluation_batches(config: Config, dataset: Dataset, *, rank: int, ranks: int) -> Iterator[Batch]:
    """Yield one rank's part of the test samples: none twice, none left out."""
    if dataset.test is None:
        return iter(())
    part = part_of_tests(len(dataset.test), config.batch_size, rank=rank, ranks=ranks)
    return _batches(dataset.test, [part], config.batch_size, 1, Damage(len(dataset.test), config.max_bad_share))


class Damage:
    """The damaged samples of a data set that this rank has met, and how many there may be."""

    def __init__(self, samples: int, share: float) -> None:
        self._samples, self._most = samples, int(samples * share)
        self._met: set[str] = set()

    def count(self, error: DamagedError) -> None:
        """Say that a sample is left out, once for each. Raises DataError where there are too many."""
        if str(error) in self._met:
            return
        self._met.add(str(error))
        if self._most == 0:
            raise error
        if len(self._met) > self._most:
            raise DataError(
                f"{error}; data.maxBadShare allows {self._most} damaged ones of {self._samples}, and this is number "
                f"{len(self._met)}"
            )
        print(f"left out: {error} ({len(self._met)} of at most {self._most})", flush=True)


def _batches(samples: Samples, parts: Iterable[Part], batch_size: int, ranks: int, damage: Damage) -> Iterator[Batch]:
    """Yield the batches in order, some of them begun ahead. What fails in a thread is raised here, in its place."""
    # One thread reads what must be read in a row, and hands the work to the others.
    reader, workers = ThreadPoolExecutor(1), ThreadPoolExecutor(THREADS)
    begun = _begin(samples, parts, batch_size, ranks, workers)
    try:
        ahead = deque(reader.submit(next, begun, None) for _ in range(max(2, SAMPLES_AHEAD // batch_size)))
        while (one := ahead.popleft().result()) is not None:
            ahead.append(reader.submit(next, begun, None))
            yield _finish(*one, damage)
    finally:
        # Nothing waits for what nobody asks for any more.
        for pool in (reader, workers):
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(
    samples: Samples, parts: Iterable[Part], batch_size: int, ranks: int, workers: ThreadPoolExecutor
) -> Iterator[tuple[Batch, list[Future[None]]]]:
    for part in parts:
        for (chosen, global_samples), works in zip(part.steps, samples.works(part), strict=True):
            images = np.zeros((batch_size, *samples.shape), dtype=np.float32)
            labels = np.zeros(batch_size, dtype=np.int64)
            weights = np.zeros(batch_size, dtype=np.float32)
            weights[: len(chosen)] = ranks / global_samples
            batch = Batch(images, labels, weights, len(chosen), global_samples)
            yield batch, [workers.submit(work, images, labels) for work in works]


def _finish(batch: Batch, futures: list[Future[None]], damage: Damage) -> Batch:
    for slot, future in enumerate(futures):
        try:
            future.result()
        except DamagedError as error:  # What may be damaged by itself has a slot by itself.
            damage.count(error)
            batch.weights[slot] = 0
    good, rest = (np.flatnonzero(weighs) for weighs in (batch.weights > 0, batch.weights == 0))
    if len(good) and len(rest):
        # Of weight 0, but batch normalization sees them: real images do not lead it astray.
        batch.images[rest] = batch.images[good[np.arange(len(rest)) % len(good)]]
    return batch
