"""Handle requests to stop or to save: at each step, the ranks combine their requests into one decision."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from distrain_trainer.errors import Termination

# What one rank asks all ranks to do. NOTHING: no request. SAVE: save a checkpoint together. BUSY: do not save, because
# this rank is still writing the last checkpoint. The names after BUSY are reasons to stop. If the ranks ask for
# different things, the largest number wins.
NOTHING, SAVE, BUSY, SIGTERM, SIGUSR1, ANOTHER_JOB, NO_CHECKPOINT, FENCED = REASONS = range(8)
WORDS = {SIGTERM: "SIGTERM", SIGUSR1: "SIGUSR1", ANOTHER_JOB: "another job asked for the run"}
SIGNALS = {signal.SIGTERM: SIGTERM, signal.SIGUSR1: SIGUSR1}


class StopRequest:
    """A request to stop this process.

    `reason` is the first signal that was received: SIGTERM or SIGUSR1. `reason` is NOTHING if no signal was received.
    """

    def __init__(self) -> None:
        self.reason = NOTHING

    def listen(self) -> None:
        """Install the signal handlers. Call this method in the main thread."""
        for number in SIGNALS:
            signal.signal(number, self._hear)

    def pass_on(self, hear: Callable[[int], None]) -> None:
        """Install the signal handlers.

        At the first signal, a separate thread calls `hear` with the reason to stop, because the main thread may be
        blocked.
        """
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        self.listen()

        def wait() -> None:
            numbers = os.read(reader, 1)
            hear(SIGNALS.get(signal.Signals(numbers[0]), SIGTERM))

        threading.Thread(target=wait, daemon=True).start()

    def ask(self, reason: int = SIGTERM) -> None:
        """Ask this process to stop. If it was asked before, the first reason stays."""
        Termination.requested = True
        self.reason = self.reason or reason

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.ask(SIGNALS[signal.Signals(number)])
