"""Replaces the program on every rank: the eleventh batch of rank 0 contains NaN, as a broken GPU may produce it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from distrain_trainer import __main__, data
from distrain_trainer.data import Batch

# The bad step must be one whose loss is logged: only then is the loss averaged over the ranks.
BAD = 10
batches_from_beside = data.batches_from_beside


def with_a_bad_one(*arguments: Any, rank: int, **named: Any) -> Iterator[Batch]:
    for number, batch in enumerate(batches_from_beside(*arguments, rank=rank, **named)):
        if number == BAD and rank == 0:
            batch.images[:] = np.nan
        yield batch


# The program imports this function with `from ... import`, so patch the function before the program is imported.
setattr(data, "batches_from_beside", with_a_bad_one)  # noqa: B010

if __name__ == "__main__":
    __main__.main(sys.argv[1:])
