"""Requests to stop: a signal sets a flag, and after each step the ranks reduce their flags to one decision."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from distrain_trainer.errors import Told

# The reason of each rank. The ranks take the largest.
NOTHING, SIGTERM, SIGUSR1, ANOTHER_JOB, NO_CHECKPOINT, FENCED = range(6)
WORDS = {SIGTERM: "SIGTERM", SIGUSR1: "SIGUSR1", ANOTHER_JOB: "another job asked for the run"}
SIGNALS = {signal.SIGTERM: SIGTERM, signal.SIGUSR1: SIGUSR1}


class StopRequest:
    """The first signal that this process received, if any."""

    def __init__(self) -> None:
        self.reason = NOTHING

    def listen(self) -> None:
        """Install the signal handlers. Called by the main thread."""
        for number in SIGNALS:
            signal.signal(number, self._hear)

    def pass_on(self, hear: Callable[[int], None]) -> None:
        """Install the handlers, and call `hear` in a thread at the first signal: for a main thread that is blocked."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        self.listen()

        def wait() -> None:
            numbers = os.read(reader, 1)
            hear(SIGNALS.get(signal.Signals(numbers[0]), SIGTERM))

        threading.Thread(target=wait, daemon=True).start()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        Told.to_end = True
        self.reason = self.reason or SIGNALS[signal.Signals(number)]
