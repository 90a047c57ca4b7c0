"""Define an exception for each cause of failure, with its exit code, and end a rank after an exception."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

# When an exception ends this process, end_rank logs it and then calls these functions with it. Each function may take a
# few seconds.
AT_END: list[Callable[[BaseException], None]] = []

TERMINATION_LOG = Path("/dev/termination-log")

# If all ranks have the same error, only rank 0 shall log it. The others wait SECONDS_FOR_RANK_0 for SIGTERM from the
# launcher.
SECONDS_FOR_RANK_0 = 5.0
# After a storage error a rank waits longer, because some ranks may notice the error later than others. If no SIGTERM
# arrives within these seconds, no other rank has the error, so this rank logs it.
SECONDS_TO_BE_ALONE = 15.0


def printable(text: str) -> str:
    """Replace surrogates by escapes: the file name b"caf\\xe9.jpg" becomes caf\\udce9.jpg.

    Python reads file names that are not UTF-8 as strings with surrogates, which no stream or file can encode.
    """
    return text.encode(errors="backslashreplace").decode()


class TrainerError(Exception):
    """An error that ends the run with one line on stderr and `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        return printable(super().__str__())


class ArgumentError(TrainerError):
    """An argument is out of its range, or contradicts another argument."""


class StorageError(TrainerError):
    """The folder or bucket of data.uri, output.uri or checkpoint.uri cannot be read or written."""


class UnavailableError(StorageError):
    """The storage is temporarily unavailable. A restart may succeed."""

    exit_code = 1


class MissingError(StorageError):
    """A file does not exist."""


class ConflictError(StorageError):
    """Another process has changed a file since this one read it."""


class CheckpointError(TrainerError):
    """A checkpoint cannot be used for this run, for example because it belongs to another model."""


class FencedError(TrainerError):
    """Another generation of the run holds HEAD. The pods of this generation must not be restarted."""

    exit_code = 4


class StoppedError(TrainerError):
    """The run has stopped between two steps, or before its first step, because it was requested to stop.

    It can be resumed.
    """

    exit_code = 143


class FinishedError(TrainerError):
    """The run finished before this start, and nothing is left to do."""

    exit_code = 0


class DataError(TrainerError):
    """The data can be read, but it cannot be used for the training."""


class DamagedSampleError(DataError):
    """One sample cannot be decoded."""


class DeviceError(TrainerError):
    """A rank does not have the GPUs that it needs."""


class DivergedError(TrainerError):
    """The training has diverged: too many steps in a row had a non-finite loss or gradient."""


class UnfitError(TrainerError):
    """This worker cannot reach the storage, but the others can.

    The message begins with the pod's name, so that the job can exclude this pod and continue with the other workers.
    """

    exit_code = 5


class LostPeerError(TrainerError):
    """Another process of the job has ended or cannot be reached. Only the log of that process can show the cause."""

    exit_code = 1


def rank_from_environment() -> int:
    """Return the rank that mpirun, torchrun or the operator has set in the environment, or 0 if no rank is set.

    In a TFJob, rank 0 is the chief. In an MXJob, rank 0 is worker 0. All other processes of such a job have a rank
    above 0.
    """
    task, index = task_from_environment()
    if task:
        speaks = "chief" if "TF_CONFIG" in os.environ else "worker"
        return index if task == speaks else index + 1
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("RANK") or "0")


def task_from_environment() -> tuple[str, int]:
    """Return the task and index of this process in a TFJob or MXJob, for example ("worker", 0).

    In other jobs, return ("", 0).
    """
    task = json.loads(os.environ.get("TF_CONFIG") or os.environ.get("MX_CONFIG") or "{}").get("task", {})
    return task.get("type", ""), int(task.get("index", 0))


def holds_weights_only() -> bool:
    """Return whether this process is a parameter server or the scheduler.

    These processes do not train, so they need no data.
    """
    return task_from_environment()[0] in ("ps", "server", "scheduler")


def end_rank(error: BaseException) -> NoReturn:
    """End this process after an exception. Print one line for a TrainerError, and a traceback for any other exception.

    Use os._exit, because MPI's clean exit would wait for the other ranks, and the other ranks wait for this rank in a
    collective. When mpirun sees the exit code, it ends the other ranks. Ranks other than 0 first wait for SIGTERM, so
    that rank 0 alone logs the error.
    """
    if isinstance(error, StoppedError):
        _exit(error.exit_code)
    is_of_storage = isinstance(error, StorageError) and not isinstance(error, MissingError)
    if rank_from_environment() != 0:
        if termination_requested_within(SECONDS_TO_BE_ALONE if is_of_storage else SECONDS_FOR_RANK_0):
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
    for call in [*AT_END]:
        call(error)
    _exit(code)


class Termination:
    """`requested` is true once this process has received a signal that requests it to end."""

    requested = False


def termination_requested_within(seconds: float) -> bool:
    """Wait up to `seconds` for a signal that requests this process to end.

    Return whether the signal arrived during this wait. If a signal arrived earlier, return False at once.
    """
    deadline = time.monotonic() + seconds
    was_requested = Termination.requested
    while not Termination.requested and time.monotonic() < deadline:
        time.sleep(0.1)
    return Termination.requested and not was_requested


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def tell_torchrun(line: str) -> None:
    """Under torchrun, write the message to its error file, so that torchrun repeats it in its own long report.

    Also write it to Kubernetes' termination log, which would otherwise contain the end of torchrun's report.
    """
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if error_file is None:
        return
    with contextlib.suppress(OSError):
        extra = {"py_callstack": line, "timestamp": str(int(time.time()))}
        Path(error_file).write_text(json.dumps({"message": {"message": line, "extraInfo": extra}}))
    # Mode "r+" does not create the file: outside Kubernetes there is no termination log.
    with contextlib.suppress(OSError), TERMINATION_LOG.open("r+") as log:
        log.write(line)
        log.truncate()
