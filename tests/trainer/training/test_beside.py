"""Test a run in which the reader process of a rank is killed.

Also test that no reader process is left after a run is stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.datasets.pictures import numbered, write_image_folder
from lab.waiting import wait_until
from tests import signal_masks
from tests.trainer.conftest import ProgramInImage

ARGUMENTS = ("--data=/data/images", "--batch-size=4", "--steps=100000", "--log-every=100000")


def processes(folder: Path, command: str) -> list[int]:
    """Return the ids of the processes that have mounted the folder and whose command line begins with `command`.

    `command` is a regular expression.
    """
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            mounted = str(folder) in (each / "mountinfo").read_text()
            if mounted and re.match(command, (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()):
                found.append(int(each.name))
        except OSError:
            continue
    return found


def beside(folder: Path) -> list[int]:
    return processes(folder, r"\S+ -c from distrain_trainer\.data\.beside import serve")


def has_started(reader: int) -> bool:
    """Return whether the process is a reader that ignores SIGTERM, as readers do once they have started.

    A process that a reader has forked is not counted: it belongs to the reader's session.
    """
    with contextlib.suppress(OSError):
        return signal_masks.contains("SigIgn", signal.SIGTERM, reader) and os.getsid(reader) == reader
    return False


def when_both_ranks_train(folder: Path, act: Callable[[], object]) -> threading.Thread:
    def wait() -> None:
        wait_until("two readers", lambda: sum(map(has_started, beside(folder))) >= 2, seconds=300)
        time.sleep(1)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images that the trainer is allowed to read, although it runs as another user."""
    tmp_path.chmod(0o755)
    write_image_folder(tmp_path, numbered(40))
    return tmp_path


@pytest.mark.shared
def test_rank_whose_reading_process_is_killed_ends_the_run_with_a_line(program: ProgramInImage, folder: Path) -> None:
    killer = when_both_ranks_train(folder, lambda: os.kill(beside(folder)[0], signal.SIGKILL))

    run = program(*ARGUMENTS, mounts={folder: "/data/images"})
    killer.join()

    # The launcher restarts the ranks after exit code 1.
    assert run.returncode == 1, run.stderr
    assert "data.uri: the process that reads and decodes this rank's images was ended by signal 9" in run.stderr
    assert not beside(folder)


@pytest.mark.shared
def test_stop_leaves_no_process_behind(program: ProgramInImage, folder: Path) -> None:
    def stop() -> None:
        # Send no signal to mpirun: it would kill the ranks two seconds later.
        for pid in [*processes(folder, "python3 -m distrain_trainer "), *beside(folder)]:
            os.kill(pid, signal.SIGTERM)

    stopper = when_both_ranks_train(folder, stop)

    run = program(*ARGUMENTS, "--checkpoint=/tmp/checkpoints", mounts={folder: "/data/images"})
    stopper.join()

    assert "stopped at step " in run.stdout, run.stdout + run.stderr
    assert not beside(folder)
