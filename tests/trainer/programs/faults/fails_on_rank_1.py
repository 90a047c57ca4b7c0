"""Replaces the program on every rank: rank 1 fails after its first step.

Other ranks may already be waiting for rank 1's gradients at that moment.
"""

from __future__ import annotations

import sys
from typing import Any

from distrain_trainer import __main__, schedule
from distrain_trainer.errors import DataError, rank_from_environment
from distrain_trainer.loop.progress import Progress

learning_rate, add = schedule.learning_rate, Progress.add


def fail_on_rank_1() -> None:
    if rank_from_environment() == 1:
        raise DataError("data.uri: gone from rank 1")


def failing_rate(config: Any, *, step: int, **named: Any) -> float:
    if step == 1:
        fail_on_rank_1()
    return learning_rate(config, step=step, **named)


def failing_add(self: Progress, *arguments: Any, **named: Any) -> None:
    add(self, *arguments, **named)
    fail_on_rank_1()


# With parameter servers, a worker may call only one of these two functions, so patch both. Patch them before the
# program is imported, because it imports learning_rate with `from ... import`.
setattr(schedule, "learning_rate", failing_rate)  # noqa: B010
setattr(Progress, "add", failing_add)  # noqa: B010
__main__.main(sys.argv[1:])
