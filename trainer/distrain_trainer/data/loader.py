"""Prefetch the batches of one rank: threads read and decode them while earlier steps are computed."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from distrain_trainer.config import Config
from distrain_trainer.data.formats import Dataset
from distrain_trainer.data.listing import naming_the_list
from distrain_trainer.data.position import Position
from distrain_trainer.data.sampler import Indices, Part, Segment, count_steps_left, part_of_epoch, part_of_tests
from distrain_trainer.data.samples import Pixels, Samples, Shape
from distrain_trainer.errors import DamagedSampleError, DataError

# Use more threads than a small machine has cores, because most threads wait for S3.
THREADS = 16
# The number of samples to prefetch. It is rounded down to whole batches, but at least two batches are prefetched.
SAMPLES_AHEAD = 64


@dataclass(frozen=True)
class Batch:
    """The samples of one rank in one step. The arrays have the same shape at every step.

    `samples` is the number of samples of this rank, `global_samples` the number of samples of all ranks. A sample's
    weight is `ranks / global_samples`. The weight is 0 for damaged samples, and for padding in the last batch of an
    epoch. Each rank multiplies the loss of each sample by the sample's weight, and adds up the products. The mean of
    the ranks' sums is the mean loss over the global batch.
    """

    images: Pixels
    labels: Indices
    weights: Pixels
    samples: int
    global_samples: int

    @property
    def is_empty(self) -> bool:
        """Whether all samples have weight 0, for example if this rank has no sample left in the epoch's last step."""
        return not self.weights.any()


START = Position()


def count_steps(config: Config, dataset: Dataset, *, ranks: int, start: Position = START) -> int:
    """Return the total number of steps of the run, including the steps before `start`.

    A step is one update of the weights by all ranks together. So if the number of ranks is higher, a run with
    trainer.epochs makes fewer steps, and a run with trainer.steps sees more samples.

    Raises DataError if the data has fewer samples than one global batch.
    """
    if config.is_synthetic:
        assert config.steps is not None
        return config.steps
    samples, global_batch = len(dataset.train), config.batch_size * ranks
    if samples < ranks:
        raise DataError(
            f"workers.replicas: {ranks} ranks are more than the {samples} training samples of {config.data}; "
            f"lower workers.replicas or workers.gpus"
        )
    if samples < global_batch:
        raise DataError(
            f"trainer.batchSize: each step needs {global_batch} samples ({ranks} ranks x {config.batch_size}), but "
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
    config: Config,
    dataset: Dataset,
    *,
    rank: int,
    ranks: int,
    start: Position = START,
    place: Callable[[], Pixels] | None = None,
    ahead: int | None = None,
) -> Iterator[Batch]:
    """Yield the batches of one rank, beginning at the position `start`.

    The iterator never ends, and may raise StorageError or DataError. `place` is a function that returns memory for the
    next batch's images. `ahead` is the number of batches to prefetch. By default, each batch gets new memory, and
    SAMPLES_AHEAD determines how many batches are prefetched.
    """
    samples, size = dataset.train, config.batch_size
    if config.is_synthetic:
        # Train on the same batch of noise again and again, as training benchmarks do. The measured speed is real, but
        # the loss has no meaning.
        everything = Part(0, np.arange(size), [(np.arange(size), size * ranks)])
        return itertools.repeat(next(_batches(samples, [everything], size, ranks, Damage(size, 0))))

    def part(epoch: int, made: Sequence[Segment] = ()) -> Part:
        return part_of_epoch(
            *(len(samples), size),
            seed=config.seed,
            epoch=epoch,
            rank=rank,
            ranks=ranks,
            shards=samples.shards,
            shuffle_buffer=samples.shuffle_buffer,
            made=made,
        )

    first = start.samples // len(samples)
    # Compute each rank's part of an epoch only when it is needed, because it contains the indices of all its samples.
    parts = (part(epoch, start.segments if epoch == first else ()) for epoch in itertools.count(first))
    damage = Damage(len(samples), config.max_bad_share)
    return _explained(config, _batches(samples, parts, size, ranks, damage, place=place, ahead=ahead))


def evaluation_batches(config: Config, dataset: Dataset, *, rank: int, ranks: int) -> Iterator[Batch]:
    """Yield one rank's part of the test samples. The parts of all ranks together contain each sample exactly once."""
    if dataset.test is None:
        return iter(())
    part = part_of_tests(len(dataset.test), config.batch_size, rank=rank, ranks=ranks)
    damage = Damage(len(dataset.test), config.max_bad_share)
    return _explained(config, _batches(dataset.test, [part], config.batch_size, 1, damage))


def _explained(config: Config, batches: Iterator[Batch]) -> Iterator[Batch]:
    with naming_the_list(config):
        yield from batches


class Damage:
    """The damaged samples that this rank has found in a data set, and the number of damaged samples that is allowed."""

    def __init__(self, samples: int, share: float) -> None:
        # Floating point would be inexact: 0.29 * 100 is below 29.
        self._samples, self._most = samples, int(samples * Fraction(repr(share)))
        self._met: set[str] = set()

    def count(self, error: DamagedSampleError) -> None:
        """Log that a damaged sample is left out.

        Each sample is logged only once. Raises DataError if too many samples are damaged.
        """
        if str(error) in self._met:
            return
        self._met.add(str(error))
        if len(self._met) > self._most:
            raise DataError(
                f"{error}, or raise data.maxBadShare, which lets {self._most} of {self._samples} samples be damaged"
            )
        print(f"left out: {error} ({len(self._met)} of at most {self._most})", flush=True)


def _batches(
    samples: Samples,
    parts: Iterable[Part],
    batch_size: int,
    ranks: int,
    damage: Damage,
    *,
    place: Callable[[], Pixels] | None = None,
    ahead: int | None = None,
) -> Iterator[Batch]:
    """Yield the batches in order, and prefetch the batches after them.

    If a thread fails to read a batch, the iterator raises the thread's exception when the caller asks for that batch.
    """
    # One thread reads the samples sequentially and passes the decoding to other threads.
    reader, workers = ThreadPoolExecutor(1), ThreadPoolExecutor(THREADS)
    begun = _begin(samples, parts, batch_size, ranks, workers, place or partial(_new, batch_size, samples.shape))
    try:
        coming = deque(reader.submit(next, begun, None) for _ in range(ahead or max(2, SAMPLES_AHEAD // batch_size)))
        while (one := coming.popleft().result()) is not None:
            coming.append(reader.submit(next, begun, None))
            yield _finish(*one, damage)
    finally:
        # Do not wait for prefetched batches that nobody needs any more.
        for pool in (reader, workers):
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(
    samples: Samples,
    parts: Iterable[Part],
    batch_size: int,
    ranks: int,
    workers: ThreadPoolExecutor,
    place: Callable[[], Pixels],
) -> Iterator[tuple[Batch, list[Future[None]]]]:
    for part in parts:
        for (chosen, global_samples), works in zip(part.steps, samples.works(part), strict=True):
            images = place()
            labels = np.zeros(batch_size, dtype=np.int64)
            weights = np.zeros(batch_size, dtype=np.float32)
            weights[: len(chosen)] = ranks / global_samples
            batch = Batch(images, labels, weights, len(chosen), global_samples)
            yield batch, [workers.submit(work, images, labels) for work in works]


def _new(batch_size: int, shape: Shape) -> Pixels:
    return np.zeros((batch_size, *shape), dtype=np.float32)


def _finish(batch: Batch, futures: list[Future[None]], damage: Damage) -> Batch:
    for slot, future in enumerate(futures):
        try:
            future.result()
        # If samples can be damaged, each function reads one sample. So the function's index is the sample's slot in the
        # batch.
        except DamagedSampleError as error:
            damage.count(error)
            batch.weights[slot] = 0
    good, rest = (np.flatnonzero(weighs) for weighs in (batch.weights > 0, batch.weights == 0))
    if len(good) and len(rest):
        # Batch normalization also uses samples of weight 0, so fill their slots with real images.
        batch.images[rest] = batch.images[good[np.arange(len(rest)) % len(good)]]
    elif len(rest):
        batch.images[:] = 0
    return batch
