"""Run under mpirun: rank 1 fails before its second step, when rank 0 already waits for its gradients."""

from __future__ import annotations

import sys
from typing import Any

from distrain_trainer import __main__, schedule, tensorflow_horovod
from distrain_trainer.errors import DataError, rank_from_environment


def failing(config: Any, *, step: int, ranks: int) -> float:
    if step == 1 and rank_from_environment() == 1:
        raise DataError("data.uri: gone from rank 1")
    return schedule.learning_rate(config, step=step, ranks=ranks)


setattr(tensorflow_horovod, "learning_rate", failing)  # noqa: B010
__main__.main(sys.argv[1:])
