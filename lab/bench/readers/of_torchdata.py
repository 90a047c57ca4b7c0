"""Read tar shards with torchdata's StatefulDataLoader, and Amazon's client of S3 for PyTorch."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from typing import Any

from s3torchconnector import S3ClientConfig, S3IterableDataset
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from lab.bench.readers.decoding import counted, to_pixels
from lab.bench.readers.program import BATCH, SEED, SHUFFLE, Count, Task, run
from lab.bench.readers.tar import samples_in


class Images(IterableDataset):  # type: ignore[misc]
    """The samples of the worker's shards, through a shuffle buffer."""

    def __init__(self, task: Task) -> None:
        self._task = task
        names = [*task.files]
        random.Random(SEED).shuffle(names)
        # Each worker process reads its own share of the shards. The client requests several ranges of an object at
        # once.
        self._shards = S3IterableDataset.from_objects(
            [f"{task.uri}/{name}" for name in names],
            region=os.environ["AWS_REGION"],
            endpoint=os.environ["AWS_ENDPOINT_URL_S3"],
            enable_sharding=True,
            s3client_config=S3ClientConfig(force_path_style=True),
        )

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        samples = (sample for file in self._shards for sample in samples_in(file))
        for image, label in shuffled(samples):
            yield (to_pixels(image) if self._task.decodes else image), label


def shuffled(samples: Iterator[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Draw each sample at random from a buffer, then refill the buffer."""
    chooser, buffer = random.Random(SEED), []
    for sample in samples:
        buffer.append(sample)
        if len(buffer) == SHUFFLE:
            place = chooser.randrange(SHUFFLE)
            buffer[place], buffer[-1] = buffer[-1], buffer[place]
            yield buffer.pop()
    chooser.shuffle(buffer)
    yield from buffer


def open_reader(task: Task) -> Iterable[Count]:
    return counted(StatefulDataLoader(Images(task), batch_size=BATCH, num_workers=task.workers), task.decodes)


if __name__ == "__main__":
    run(open_reader)
