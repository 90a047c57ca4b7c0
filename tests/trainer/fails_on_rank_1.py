"""Run as a program's ranks: rank 1 fails before its second step, when the others may already wait for its gradients."""

from __future__ import annotations

import sys
from typing import Any

from distrain_trainer import __main__, schedule
from distrain_trainer.errors import DataError, rank_from_environment

learning_rate = schedule.learning_rate


def failing(config: Any, *, step: int, ranks: int) -> float:
    if step == 1 and rank_from_environment() == 1:
        raise DataError("data.uri: gone from rank 1")
    return learning_rate(config, step=step, ranks=ranks)


# Before the program is imported, and takes it from there.
setattr(schedule, "learning_rate", failing)  # noqa: B010
__main__.main(sys.argv[1:])
