"""What keeps checkpoints from being saved: since when, and when it was last said."""

from __future__ import annotations

import time

SECONDS_BETWEEN_WORDS = 60.0


class Trouble:
    """Begins with the first save that fails, and ends with the next one that does not.

    One thread notes what happens, and another one asks.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._step = 0
        self._since = self._said = 0.0

    def __bool__(self) -> bool:
        return bool(self.reason)

    @property
    def seconds(self) -> float:
        """How long nothing could be saved."""
        return time.monotonic() - self._since if self.reason else 0.0

    def add(self, step: int, reason: str) -> None:
        """Note that a step could not be saved."""
        if not self.reason:
            self._step, self._since, self._said = step, time.monotonic(), 0.0
        self.reason = reason

    def end(self) -> None:
        self.reason = ""

    def word(self) -> str:
        """Return what is to be said now: at first, and each minute; else nothing."""
        now, reason, is_first = time.monotonic(), self.reason, not self._said
        if not reason or (not is_first and now - self._said < SECONDS_BETWEEN_WORDS):
            return ""
        self._said = now
        since = "" if is_first else f" for {self.seconds / 60:.0f} min"
        return f"checkpoint: step {self._step} is not saved{since} ({reason}); training goes on, and tries again"
