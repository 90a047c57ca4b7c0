"""Read tar shards with the trainer: `PYTHONPATH=trainer python -m lab.bench.readers.of_distrain URI`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from distrain_trainer.config import Config
from distrain_trainer.data import batches_from_beside, count_steps, end_batches, load
from distrain_trainer.data.formats import Dataset
from distrain_trainer.data.sampler import part_of_epoch
from distrain_trainer.data.samples import Work
from distrain_trainer.data.shards import Sample
from lab.bench.readers.program import BATCH, RATIO, SCALE, SEED, SIDE, Count, Task, run


def open_reader(task: Task) -> Iterable[Count]:
    config = Config(
        data=task.uri,
        model="resnet50",
        batch_size=BATCH,
        epochs=1,
        seed=SEED,
        image_size=SIDE,
        augment_scale=SCALE,
        augment_ratio=RATIO,
    )
    dataset = load(config)
    return _decoded(config, dataset) if task.decodes else _files(dataset)


def _decoded(config: Config, dataset: Dataset) -> Iterator[Count]:
    batches = batches_from_beside(config, dataset, rank=0, ranks=1)
    for _ in range(count_steps(config, dataset, ranks=1)):
        batch = next(batches)
        yield batch.samples, batch.images[: batch.samples].nbytes
    end_batches(batches)


def _files(dataset: Dataset) -> Iterator[Count]:
    """Yield the batches with the order and the shuffle buffer of training, but without decoding."""
    samples = dataset.train
    part = part_of_epoch(len(samples), BATCH, seed=SEED, epoch=0, rank=0, ranks=1, shards=samples.shards)
    for works in samples.works(part):
        yield len(works), sum(map(_bytes_of, works))


def _bytes_of(work: Work) -> int:
    """Return the size in bytes of one image file.

    `work` is the function that the trainer would call to decode the file.
    """
    assert isinstance(work, partial)
    [sample] = (each for each in work.args if isinstance(each, Sample))
    return len(sample.image)


if __name__ == "__main__":
    run(open_reader)
