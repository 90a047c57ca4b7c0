"""Requests to stop: signals set a flag, which the ranks look at together after each step."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from distrain_trainer.errors import Told

# What the ranks reduce to its largest: the reason of each, or none.
NOTHING, SIGTERM, SIGUSR1, ANOTHER_JOB, NO_CHECKPOINT, FENCED = range(6)
WORDS = {SIGTERM: "SIGTERM", SIGUSR1: "SIGUSR1", ANOTHER_JOB: "another job asked for the run"}
SIGNALS = {signal.SIGTERM: SIGTERM, signal.SIGUSR1: SIGUSR1}


class StopRequest:
    """What this process was asked by a signal; the first one counts."""

    def __init__(self) -> None:
        self.reason = NOTHING

    def listen(self) -> None:
        """Take the signals from now on. By the main thread."""
        for number in SIGNALS:
            signal.signal(number, self._hear)

    def pass_on(self, hear: Callable[[int], None]) -> None:
        """Take the signals from now on, and tell a thread's `hear` of the first: for a main thread that only waits."""
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
