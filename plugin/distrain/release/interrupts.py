"""Hold back Ctrl-C while a release changes, so that what was begun is finished and then kept or taken back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """From its making on, a signal to stop is only noted.

    It takes effect as a KeyboardInterrupt in `check`, or anywhere inside `allowed`: the first one, once. `end` is the
    end of all signals: what a change has come to, kept or taken back, holds when the program says so and exits.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_allowed = False
        for number in SIGNALS:
            signal.signal(number, self._note)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.came:
            raise KeyboardInterrupt

    def end(self) -> None:
        """Ignore every signal from now on; the programs that are run from here do so, too."""
        # Python itself puts back the default for all but ignored ones when it exits.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

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
        self.came = True
        if self._is_allowed:
            # What takes back is not to be interrupted in its turn.
            self._is_allowed = False
            raise KeyboardInterrupt
