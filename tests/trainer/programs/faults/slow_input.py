"""Replaces the program on every rank: the last rank reads its seventh batch for longer than a step may take."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from distrain_trainer import __main__, data
from distrain_trainer.data import Batch
from distrain_trainer.loop import watchdog

SLOW, SECONDS = 6, 8
batches_from_beside = data.batches_from_beside
watchdog.LEAST_SECONDS, watchdog.SECONDS_BETWEEN, watchdog.SECONDS_OF_INPUT = 5.0, 0.2, 0.5


def with_a_slow_one(*arguments: Any, rank: int, ranks: int, **named: Any) -> Iterator[Batch]:
    for number, batch in enumerate(batches_from_beside(*arguments, rank=rank, ranks=ranks, **named)):
        if number == SLOW and rank == ranks - 1:
            time.sleep(SECONDS)
        yield batch


# The program imports this function with `from ... import`, so patch the function before the program is imported.
setattr(data, "batches_from_beside", with_a_slow_one)  # noqa: B010
__main__.main(sys.argv[1:])
