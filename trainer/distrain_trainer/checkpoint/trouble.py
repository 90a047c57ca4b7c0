"""What keeps checkpoints from being saved: since when, and when it was last said."""

from __future__ import annotations

import time

SECONDS_BETWEEN_WORDS = 60.0


class Trouble:
    """Begins with the first save that fails, and ends with the next one that does not.

    A call that never returns, as on a network volume whose server is gone, is trouble as well: `silence` is its time.
    One thread notes what happens, and another one asks.
    """

    def __init__(self) -> None:
        self._failure = ""
        self._step = 0
        self._since = self._said = 0.0
        # What the saving thread does, such as "writing /checkpoints/HEAD", and since when; None while it does nothing.
        self._doing: tuple[str, float] | None = None

    def __bool__(self) -> bool:
        return bool(self._failure)

    @property
    def seconds(self) -> float:
        """How long nothing could be saved."""
        failing = time.monotonic() - self._since if self._failure else 0.0
        return max(failing, self.silence)

    @property
    def silence(self) -> float:
        """For how many seconds the saving thread has waited for one call to return."""
        doing = self._doing
        return time.monotonic() - doing[1] if doing else 0.0

    @property
    def reason(self) -> str:
        """Why nothing is saved: the last failure, or the call that does not return."""
        doing, silence = self._doing, self.silence
        if doing and (silence > SECONDS_BETWEEN_WORDS or not self._failure):
            return f"{doing[0]} has not returned for {silence:.0f} s"
        return self._failure

    def note(self, what: str) -> None:
        """Note what the saving thread does from now on, such as "writing /checkpoints/HEAD"."""
        self._doing = (what, time.monotonic())

    def rest(self) -> None:
        """Note that the saving thread's last call has returned."""
        self._doing = None

    def add(self, step: int, reason: str) -> None:
        """Note that a step could not be saved."""
        if not self._failure:
            self._step, self._since = step, time.monotonic()
        self._failure = reason

    def end(self) -> None:
        self._failure = ""

    def word(self) -> str:
        """Return what is to be said now: at first, and each minute; else nothing."""
        now = time.monotonic()
        if not self._failure and self.silence < SECONDS_BETWEEN_WORDS:
            return ""
        is_first = self._said < self._since or not self._said
        if not is_first and now - self._said < SECONDS_BETWEEN_WORDS:
            return ""
        self._said = now
        if not self._failure:
            return f"checkpoint: {self.reason}; training goes on"
        since = "" if is_first else f" for {self.seconds / 60:.0f} min"
        return f"checkpoint: step {self._step} is not saved{since} ({self.reason}); training goes on, and tries again"
