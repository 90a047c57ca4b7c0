"""Record since when and why checkpoints cannot be saved, and when this was last logged."""

from __future__ import annotations

import time

SECONDS_BETWEEN_LINES = 60.0


class Outage:
    """A period in which checkpoints cannot be saved.

    The outage begins with the first failure and ends with the next successful save. A call that does not return, for
    example because the server of a network volume is down, also counts as an outage. `silence` is the time for which
    the current call has not returned, in seconds. The saving thread records the outage, and the main thread reads the
    record.
    """

    def __init__(self) -> None:
        self._failure = ""
        self._step = 0
        self._since = self._said = 0.0
        # The call that the saving thread is making, for example "writing /checkpoints/HEAD", and the time when it
        # began. None between calls.
        self._doing: tuple[str, float] | None = None

    def __bool__(self) -> bool:
        return bool(self._failure)

    @property
    def seconds(self) -> float:
        """The seconds since the outage began."""
        failing = time.monotonic() - self._since if self._failure else 0.0
        return max(failing, self.silence)

    @property
    def silence(self) -> float:
        """The seconds since the saving thread began its current call."""
        doing = self._doing
        return time.monotonic() - doing[1] if doing else 0.0

    @property
    def reason(self) -> str:
        """The reason why no checkpoint is saved: the last failure, or the call that does not return."""
        doing, silence = self._doing, self.silence
        if doing and (silence > SECONDS_BETWEEN_LINES or not self._failure):
            return f"{doing[0]} has not returned for {silence:.0f} s"
        return self._failure

    def note(self, what: str) -> None:
        """Record the call that the saving thread begins, for example "writing /checkpoints/HEAD"."""
        self._doing = (what, time.monotonic())

    def rest(self) -> None:
        """Record that the saving thread's call has returned."""
        self._doing = None

    def add(self, step: int, reason: str) -> None:
        """Record that the state after a step could not be saved."""
        if not self._failure:
            self._step, self._since = step, time.monotonic()
        self._failure = reason

    def end(self) -> None:
        self._failure = ""

    def line(self) -> str:
        """Return the line to log now, if it is time: at the beginning of the outage, and then once per minute.

        Return "" otherwise.
        """
        now = time.monotonic()
        if not self._failure and self.silence < SECONDS_BETWEEN_LINES:
            return ""
        is_first = self._said < self._since or not self._said
        if not is_first and now - self._said < SECONDS_BETWEEN_LINES:
            return ""
        self._said = now
        if not self._failure:
            return f"checkpoint: {self.reason}; training goes on"
        since = "" if is_first else f" for {self.seconds / 60:.0f} min"
        return f"checkpoint: step {self._step} is not saved{since} ({self.reason}); training goes on, and tries again"
