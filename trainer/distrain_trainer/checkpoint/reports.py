"""Tell rank 0 which files of a checkpoint the other ranks have written.

Each rank writes a small file, which is its report. The ranks write a checkpoint while the training continues. Ranks
report by files and not by a collective, because a collective would interrupt the training.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict

from distrain_trainer.checkpoint.files import Tell
from distrain_trainer.checkpoint.manifest import FileSum
from distrain_trainer.errors import StorageError, UnavailableError
from distrain_trainer.storage import Store

# Seconds between two checks for a report. On a volume such as NFS, a file written on another machine may take half a
# minute to appear.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


def path_of(name: str, rank: int) -> str:
    return f"{name}/rank-{rank}.json"


def write(store: Store, name: str, rank: int, start: str, sums: dict[str, FileSum], tell: Tell) -> None:
    """Called by ranks other than 0: report the files that this rank has written.

    `start` identifies the current start of the run.
    """
    report = {"start": start, "files": {file: asdict(each) for file, each in sums.items()}}
    tell(f"writing {store.path(path_of(name, rank))}")
    store.write(path_of(name, rank), (json.dumps(report, indent=1) + "\n").encode())


def wait(
    store: Store, name: str, ranks: int, start: str, tell: Tell, *, seconds: float, is_wanted: Callable[[], bool]
) -> dict[str, FileSum]:
    """Called by rank 0: wait for the reports of all other ranks. Return the reported files in the order of the ranks.

    Raises UnavailableError if a report takes longer than `seconds`, or if the checkpoint has become unnecessary.
    """
    sums: dict[str, FileSum] = {}
    for rank in range(1, ranks):
        tell(f"waiting until rank {rank} has written its files of {store.path(name)}")
        begun, pause = time.monotonic(), FIRST_PAUSE
        while (report := _read(store, name, rank, start)) is None:
            if not is_wanted() or time.monotonic() - begun > seconds:
                waited = time.monotonic() - begun
                raise UnavailableError(
                    f"{store.value}: rank {rank} has not written its files of {store.path(name)} within {waited:.0f} s"
                )
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
        sums |= report
    return sums


def _read(store: Store, name: str, rank: int, start: str) -> dict[str, FileSum] | None:
    """Return the files that a rank has reported, or None if there is no report yet."""
    held = store.read_tagged(path_of(name, rank))
    if held is None:
        return None
    try:
        told = json.loads(held[0])
        # If HEAD was deleted, a process that has died may have left a report under the same name.
        return {file: FileSum(**each) for file, each in told["files"].items()} if told["start"] == start else None
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def delete(store: Store, name: str, ranks: int, tell: Tell) -> None:
    """Called by rank 0: delete the reports, after their content has been written to the manifest.

    If the store refuses to delete a report, the report stays.
    """
    with contextlib.suppress(StorageError):
        for rank in range(1, ranks):
            tell(f"deleting {store.path(path_of(name, rank))}")
            store.delete(path_of(name, rank))
