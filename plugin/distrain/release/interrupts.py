"""Hold back Ctrl-C and SIGTERM during a change, so that the change is either finished or undone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# Ctrl-C, and the signal that CI systems and `kill` send: the sender wants the change undone.
STOPPING = (signal.SIGINT, signal.SIGTERM)
# SIGHUP comes when the terminal is closed; nobody asked to stop.
SIGNALS = (*STOPPING, signal.SIGHUP)


class Interrupts:
    """Record SIGINT and SIGTERM instead of acting on them; a signal that was ignored at the start stays ignored.

    The first signal raises KeyboardInterrupt once, either in `check` or inside `allowed`. After `end` all signals are
    ignored, so that the final report and the exit code stay true.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_allowed = False
        for number in STOPPING:
            # nohup ignores signals for its program, and a shell does so for a background program.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)
        # The change goes on without the terminal. Helm's process inherits this setting.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has been received."""
        if self.came:
            raise KeyboardInterrupt

    def end(self) -> None:
        """Ignore SIGINT, SIGTERM and SIGHUP from now on; child processes inherit this."""
        # At exit Python restores the default handler of every signal that is not ignored.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at once when a signal is received in this block."""
        self._is_allowed = True
        try:
            self.check()
            yield
        finally:
            self._is_allowed = False

    def _note(self, *_: object) -> None:
        self.came = True
        if self._is_allowed:
            # A second signal must not interrupt the code that undoes the change.
            self._is_allowed = False
            raise KeyboardInterrupt
