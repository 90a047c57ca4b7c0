"""The user's mistakes, one class per cause, and how a rank ends on one."""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import NoReturn

# Rank 0's line about a mistake that every rank meets. The others wait this long for mpirun to end them on its account.
SECONDS_FOR_RANK_0 = 5.0


class TrainerError(Exception):
    """Ends the run with one line on stderr and `exit_code`."""

    exit_code = 2


class ArgumentError(TrainerError):
    """An argument is out of its range, or does not go with another."""


class StorageError(TrainerError):
    """The folder or bucket of data.uri or output.uri cannot be read or written."""


class DataError(TrainerError):
    """The data was read, but cannot be trained on as it is."""


class DeviceError(TrainerError):
    """The ranks of a machine and its GPUs do not match."""


class DivergedError(TrainerError):
    """The loss is no number any more."""


def rank_from_environment() -> int:
    """Return this process's rank as mpirun or torchrun tells it at start, long before a framework is up; else 0."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("RANK") or "0")


def end_rank(error: BaseException) -> NoReturn:
    """End this process at once on an error: a line for a user's mistake, a traceback for a bug.

    No clean exit: MPI's would wait for the other ranks, which wait for this one in a collective. mpirun ends them
    when it sees the exit code.
    """
    if rank_from_environment() != 0:
        time.sleep(SECONDS_FOR_RANK_0)
    if isinstance(error, TrainerError):
        code = error.exit_code
        print(f"distrain: {' '.join(str(error).split())}", file=sys.stderr)
    else:
        code = 1
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
