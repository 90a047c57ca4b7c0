"""A disk that is full or slow as a test has it, and what waits for it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from distrain_trainer.errors import StorageError
from distrain_trainer.loop.run import Run
from distrain_trainer.storage import FolderStore

from .checkpointing import make_step

FULL = "checkpoint.uri: the disk is full; free some of it"


class Disk:
    """What happens to the writes of checkpoints: they fail, or wait, or are made."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.writes = 0
        original = FolderStore.write

        def write(store: FolderStore, name: str, content: bytes | memoryview) -> None:
            # Another test's thread may still be at it.
            if store.uri == str(folder) and name.endswith(".safetensors"):
                self.writes += 1
                self.may_go_on.wait(10)
                if self.is_full:
                    raise StorageError(FULL)
            original(store, name, content)

        monkeypatch.setattr(FolderStore, "write", write)


def fill(folder: Path) -> Path:
    """Fill the rest of a disk, and return the file that does."""
    with contextlib.suppress(OSError), (folder / "others").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return folder / "others"


def hang(folder: Path) -> None:
    """Have each write of the first generation's state wait for ever, as on a network volume whose server is gone."""
    for samples in range(10, 1000, 10):
        (folder / f"1-{samples}").mkdir()
        # A pipe that nobody reads.
        os.mkfifo(folder / f"1-{samples}" / ".state-0.safetensors.part")


def steps_until(run: Run, condition: Callable[[], object]) -> None:
    for _ in range(500):
        if condition():
            return
        make_step(run)
        time.sleep(0.01)
    pytest.fail("it never came")


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it never came")
