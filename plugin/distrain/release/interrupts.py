"""Hold back Ctrl-C while a release changes, so that what was begun is finished and then kept or taken back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# Ctrl-C, and what a CI system or `kill` sends: whoever sends it wants the change to be taken back.
STOPPING = (signal.SIGINT, signal.SIGTERM)
# A terminal that is closed sends the last one, which nobody has decided.
SIGNALS = (*STOPPING, signal.SIGHUP)


class Interrupts:
    """From its making on, a signal to stop is only noted; one that was ignored before stays ignored.

    It takes effect as a KeyboardInterrupt in `check`, or anywhere inside `allowed`: the first one, once. `end` is the
    end of all signals: what a change has come to, kept or taken back, holds when the program says so and exits.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_allowed = False
        for number in STOPPING:
            # Ignored at the start by nohup, or by a shell for what it runs in the background.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)
        # What was begun goes on without the terminal; Helm inherits this.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

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
