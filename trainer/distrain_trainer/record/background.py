"""Write the files of a run in a thread, at most once every 30 seconds.

If the storage fails, this neither ends nor delays the training.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from distrain_trainer.errors import FencedError, StorageError

SECONDS_BETWEEN_WRITES = 30.0
SECONDS_BETWEEN_WARNINGS = 600.0


class BackgroundWriter(ABC):
    """A thread that writes new content until it is closed, or until another job has taken over the run."""

    def __init__(self, subject: str, say: Callable[[str], None]) -> None:
        """`subject` says in log lines what is written, for example "record"."""
        self._subject, self._say = subject, say
        self._change = threading.Condition()
        self._is_closed = self._is_fenced = self._is_failing = False
        self._warned = float("-inf")
        self._thread = threading.Thread(target=self._work, daemon=True)

    @abstractmethod
    def _has_new(self) -> bool:
        """Return whether there is new content to write. Called with `_change` held."""

    @abstractmethod
    def _write(self) -> None:
        """Write the new content. Raises FencedError if another job has taken over the run, and StorageError."""

    def close(self) -> None:
        """Begin the last write."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()

    def join(self, seconds: float) -> None:
        """Wait until the last write is done, but at most `seconds`."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, seconds))

    def _work(self) -> None:
        while not self._is_fenced:
            with self._change:
                self._change.wait_for(lambda: self._has_new() or self._is_closed)
            self._try_to_write()
            if self._is_closed and not self._has_new():
                return
            self._pause()

    def _pause(self) -> None:
        with self._change:
            # The last write has failed. If the process is about to end, retry after one second, because it waits only a
            # few seconds for the write.
            if self._is_closed:
                self._change.wait(1)
            else:
                self._change.wait_for(lambda: self._is_closed, SECONDS_BETWEEN_WRITES)

    def _try_to_write(self) -> None:
        """Write. At the beginning of an outage, log one line."""
        try:
            self._write()
        except FencedError:
            self._is_fenced = True
        except Exception as error:  # Catch every error: the training must continue.
            reason = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
            if not self._is_failing and time.monotonic() - self._warned > SECONDS_BETWEEN_WARNINGS:
                self._say(f"{self._subject}: not written ({reason}); training goes on, and tries again")
                self._warned = time.monotonic()
            self._is_failing = True
        else:
            self._is_failing = False
