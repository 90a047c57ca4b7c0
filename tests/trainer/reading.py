"""What the tests of the data share: reading an epoch, and telling its samples apart."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from distrain_trainer.config import Config
from distrain_trainer.data import Batch, Dataset, load, train_batches


def config_of(data: Path | str, **values: Any) -> Config:
    return Config(**{"data": str(data), "batch_size": 3, "epochs": 1, **values})


def epoch_of(config: Config, dataset: Dataset, *, ranks: int, epoch: int = 0) -> list[list[Batch]]:
    """Return each rank's batches of an epoch."""
    steps = -(-len(dataset.train) // (ranks * config.batch_size))
    return [
        list(
            itertools.islice(train_batches(config, dataset, rank=rank, ranks=ranks), epoch * steps, (epoch + 1) * steps)
        )
        for rank in range(ranks)
    ]


def numbers_in(batches: list[Batch]) -> list[int]:
    """Return the numbers that the images hold, in order, less those that only fill up."""
    return [round(float(pixels) * 255) for batch in batches for pixels in batch.images[batch.weights > 0, 0, 0, 0]]


def go_through(config: Config) -> list[Batch]:
    """Read all that there is to train on."""
    [batches] = epoch_of(config, load(config), ranks=1)
    return batches
