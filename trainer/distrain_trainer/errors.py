"""The user's mistakes, one class per cause, and how a rank ends on one."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

TERMINATION_LOG = Path("/dev/termination-log")

# Rank 0's line about a mistake that every rank meets. The others wait this long for mpirun to end them on its account.
SECONDS_FOR_RANK_0 = 5.0
# The storage refuses rank 0 a little later or earlier than others. After this long it has not.
SECONDS_TO_BE_ALONE = 15.0


class TrainerError(Exception):
    """Ends the run with one line on stderr and `exit_code`."""

    exit_code = 2


class ArgumentError(TrainerError):
    """An argument is out of its range, or does not go with another."""


class StorageError(TrainerError):
    """The folder or bucket of data.uri, output.uri or checkpoint.uri cannot be read or written."""


class UnavailableError(StorageError):
    """The bucket's server gives no answer, or none for now: another start may find it again."""

    exit_code = 1


class MissingError(StorageError):
    """A file is not where it should be."""


class ConflictError(StorageError):
    """Another process has changed a file since this one read it."""


class CheckpointError(TrainerError):
    """A checkpoint is whole, but not of what is trained now."""


class FencedError(TrainerError):
    """Another generation holds the run: this one must not come back."""

    exit_code = 4


class StoppedError(TrainerError):
    """Asked to stop, the ranks have stopped together between two steps, and can go on from there."""

    exit_code = 143


class FinishedError(TrainerError):
    """There is nothing to do: the run has come to its end before."""

    exit_code = 0


class DataError(TrainerError):
    """The data was read, but cannot be trained on as it is."""


class DamagedError(DataError):
    """One sample cannot be decoded."""


class DeviceError(TrainerError):
    """The ranks of a machine and its GPUs do not match."""


class DivergedError(TrainerError):
    """The loss is no number any more."""


class UnfitError(TrainerError):
    """This worker alone cannot reach what the others can. Its pod's name begins the line: they go on without it."""

    exit_code = 5


class LostPeerError(TrainerError):
    """Another process of the job has ended, or cannot be reached, for a reason that it alone knows."""

    exit_code = 1


def rank_from_environment() -> int:
    """Return this process's rank as mpirun or torchrun tells it at start, long before a framework is up; else 0.

    In a TFJob the chief speaks for all, in an MXJob worker 0: that one comes first, and the others after it.
    """
    task, index = task_from_environment()
    if task:
        speaks = "chief" if "TF_CONFIG" in os.environ else "worker"
        return index if task == speaks else index + 1
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("RANK") or "0")


def task_from_environment() -> tuple[str, int]:
    """Return what the operator says this process is in a TFJob or MXJob, such as ("worker", 0); else ("", 0)."""
    task = json.loads(os.environ.get("TF_CONFIG") or os.environ.get("MX_CONFIG") or "{}").get("task", {})
    return task.get("type", ""), int(task.get("index", 0))


def holds_weights_only() -> bool:
    """Tell whether this process is a parameter server, or their scheduler: it trains nothing, and needs no data."""
    return task_from_environment()[0] in ("ps", "server", "scheduler")


def end_rank(error: BaseException) -> NoReturn:
    """End this process at once on an error: a line for a user's mistake, a traceback for a bug.

    No clean exit: MPI's would wait for the other ranks, which wait for this one in a collective. mpirun ends them
    when it sees the exit code.
    """
    if isinstance(error, StoppedError):
        _exit(error.exit_code)
    is_of_storage = isinstance(error, StorageError) and not isinstance(error, MissingError)
    if rank_from_environment() != 0:
        if told_to_end_within(SECONDS_TO_BE_ALONE if is_of_storage else SECONDS_FOR_RANK_0):
            _exit(error.exit_code if isinstance(error, TrainerError) else 1)
        if is_of_storage:
            error = UnfitError(f"{socket.gethostname()}: {error}")
    if isinstance(error, TrainerError):
        code = error.exit_code
        line = f"distrain: {' '.join(str(error).split())}"
        print(line, file=sys.stderr)
        tell_torchrun(line)
    else:
        code = 1
        traceback.print_exception(error)
    _exit(code)


class Told:
    """Whether a signal has told this process to end."""

    to_end = False


def told_to_end_within(seconds: float) -> bool:
    """Wait, and return whether this process is told to end meanwhile. Where it was before, nobody is to wait for it."""
    deadline = time.monotonic() + seconds
    was_told = Told.to_end
    while not Told.to_end and time.monotonic() < deadline:
        time.sleep(0.1)
    return Told.to_end and not was_told


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def tell_torchrun(line: str) -> None:
    """Have torchrun say why a rank ended: it prints forty lines of its own below ours.

    And leave the line where Kubernetes takes a container's termination message from, rather than the end of those.
    """
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if error_file is None:
        return
    with contextlib.suppress(OSError):
        extra = {"py_callstack": line, "timestamp": str(int(time.time()))}
        Path(error_file).write_text(json.dumps({"message": {"message": line, "extraInfo": extra}}))
    # Not created: outside Kubernetes it is missing and nobody looks for it.
    with contextlib.suppress(OSError), TERMINATION_LOG.open("r+") as log:
        log.write(line)
        log.truncate()
