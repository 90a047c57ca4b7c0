"""Notice a rank that hangs: all others wait for it in a collective, for ever, and none of them can tell which it is."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque

from distrain_trainer.errors import LostPeerError, end_rank
from distrain_trainer.storage.retry import is_waited_for

# A step may be longer than others, by a slow read or a checkpoint, but not by this much.
LEAST_SECONDS = 30.0
TIMES_THE_MEDIAN = 10
# Of so many of the last steps.
REMEMBERED = 100
SECONDS_BETWEEN = 1.0


class Watchdog:
    """Ends this process when no step is made for far longer than steps take, from the second one on.

    The first one compiles, and takes as long as it likes; of the second nothing else is known than how long that was.
    """

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=REMEMBERED)
        self._last = 0.0
        self._stopped = threading.Event()

    def made_step(self, seconds: float) -> None:
        """Note a step, and how long it took by itself."""
        now = time.monotonic()
        self._took.append(now - self._last if self._last else seconds)
        if not self._last:
            threading.Thread(target=self._watch, daemon=True).start()
        self._last = now

    def stop(self) -> None:
        """Let what comes after the last step take its time."""
        self._stopped.set()

    @property
    def limit(self) -> float:
        """Seconds that a step may take."""
        return max(LEAST_SECONDS, TIMES_THE_MEDIAN * statistics.median(self._took))

    def _watch(self) -> None:
        looked = time.monotonic()
        while not self._stopped.wait(SECONDS_BETWEEN):
            now = time.monotonic()
            if now - looked > 5 * SECONDS_BETWEEN:
                # It was this process that was halted: its step has yet to go on.
                self._last = now
            if is_waited_for():
                # The input's, which will come: the storage says for how long it is waited for.
                self._last = now
            looked = now
            limit = self.limit
            if now - self._last > limit and not self._stopped.is_set():
                end_rank(
                    LostPeerError(f"no step was made for {limit:.0f} s: a rank hangs, or the network between ranks")
                )
