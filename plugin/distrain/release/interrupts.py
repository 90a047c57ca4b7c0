"""Hold back Ctrl-C while a release changes, so that what was begun is finished and then kept or taken back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """From its making to the program's end, a signal to stop is only noted.

    It takes effect as a KeyboardInterrupt in `check`, or anywhere inside `allowed`: the first one, once. The handlers
    stay: when a change is through, a signal must not make the program say otherwise.
    """

    def __init__(self) -> None:
        self._came = False
        self._is_allowed = False
        for number in SIGNALS:
            signal.signal(number, self._note)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self._came:
            raise KeyboardInterrupt

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let a signal end the block at once."""
        self._is_allowed = True
        try:
            self.check()
            yield
        finally:
            self._is_allowed = False

    def _note(self, *_: object) -> None:
        self._came = True
        if self._is_allowed:
            # What takes back is not to be interrupted in its turn.
            self._is_allowed = False
            raise KeyboardInterrupt
