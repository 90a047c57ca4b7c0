"""Ask a store again that does not answer, for as long as an outage may last, and say so once a minute.

boto3 itself asks three times within some seconds. This is for what takes longer: a server that starts anew, a name
server that is away, a service that asks its clients to slow down.
"""

from __future__ import annotations

import math
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from distrain_trainer.errors import (
    MissingError,
    StoppedError,
    StorageError,
    Told,
    UnavailableError,
    rank_from_environment,
)

T = TypeVar("T")

# An outage of five minutes is survived, and one that never ends is not waited for for ever.
SECONDS_TO_WAIT = 600.0
SECONDS_BETWEEN_WORDS = 60.0
# Between two tries: twice as long each time, and at random, so that a thousand ranks do not come back at once.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
# Not the one that training draws its numbers from.
_chance = random.Random()
# Thread -> since when it asks a store, without an answer yet.
_asking: dict[int, float] = {}
# An answer that takes longer than this is waited for.
SECONDS_OF_A_CALL = 10.0
# Whose last call got no answer -> when. It counts until the next call: a checkpoint is tried again after a minute.
_in_vain: dict[int, float] = {}
SECONDS_IN_VAIN = 120.0


def is_waited_for() -> bool:
    """Tell whether a store does not answer this process: then the input of other ranks may be late as well."""
    now = time.monotonic()
    is_late = any(now - since > SECONDS_OF_A_CALL for since in list(_asking.values()))
    return is_late or any(now - when < SECONDS_IN_VAIN for when in list(_in_vain.values()))


class Patience:
    """How long a store is asked again, from a call's first failure on. Its threads speak of one outage with one voice.

    A refusal (wrong keys, no such bucket) ends the first call at once. What a store has allowed before is asked again,
    too: whoever took the right away may give it back, and hours of training are worth the wait.
    """

    def __init__(
        self, seconds: float | None = None, *, allowed: tuple[str, ...] = (), heeds_sigterm: bool = False
    ) -> None:
        """`allowed` are the verbs (list, read, write) that another object has found to be allowed.

        With `heeds_sigterm` it ends where this process is told to end: for a start, which has nothing to save yet.
        """
        self._heeds_sigterm = heeds_sigterm
        self._seconds = SECONDS_TO_WAIT if seconds is None else seconds
        self._allowed = {*allowed}
        self._lock = threading.Lock()
        self._is_told = False
        self._out_since: float | None = None
        self._last_word = -math.inf

    def ask(self, verb: str, ask: Callable[[], T]) -> T:
        """Return what `ask` returns.

        Raises StorageError, UnavailableError where the time to wait is over, and StoppedError.
        """
        try:
            if not self._seconds:
                answer = ask()
            else:
                with _noted():
                    answer = self._ask(verb, ask)
                self._allowed.add(verb)
                self._tell_end()
        except UnavailableError:
            _in_vain[id(self)] = time.monotonic()
            raise
        _in_vain.pop(id(self), None)
        return answer

    def _ask(self, verb: str, ask: Callable[[], T]) -> T:
        pause, failing_since = FIRST_PAUSE, math.inf
        while True:
            try:
                return ask()
            except StorageError as error:
                if not self._may_pass(verb, error):
                    raise
                now = time.monotonic()
                failing_since = min(failing_since, now)
                left = self._seconds - (now - failing_since)
                if left <= 0:
                    raise UnavailableError(str(error)) from None
                if self._heeds_sigterm and Told.to_end:
                    _print(f"{error}; stopped before the training began")
                    raise StoppedError from None
                self._tell(f"{error}; trying again for {left:.0f} s", failing_since)
            time.sleep(pause * _chance.uniform(0.5, 1))
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _may_pass(self, verb: str, error: StorageError) -> bool:
        # A process whose main thread has ended only waits for the threads that read ahead.
        if isinstance(error, MissingError) or not threading.main_thread().is_alive():
            return False
        return isinstance(error, UnavailableError) or verb in self._allowed

    def _tell(self, line: str, failing_since: float) -> None:
        with self._lock:
            self._out_since = failing_since if self._out_since is None else self._out_since
            # Where all ranks wait, rank 0 alone speaks in the first minute.
            spoken = self._last_word if rank_from_environment() == 0 else max(failing_since, self._last_word)
            if time.monotonic() - spoken >= SECONDS_BETWEEN_WORDS:
                self._last_word, self._is_told = time.monotonic(), True
                _print(line)

    def _tell_end(self) -> None:
        with self._lock:
            if self._out_since is not None and self._is_told:
                _print(f"the storage answers again, after {time.monotonic() - self._out_since:.0f} s")
            self._out_since, self._is_told = None, False


@contextmanager
def _noted() -> Iterator[None]:
    """Note that this thread asks a store, from now on."""
    thread = threading.get_ident()
    _asking[thread] = time.monotonic()
    try:
        yield
    finally:
        _asking.pop(thread, None)


def _print(line: str) -> None:
    where = "" if rank_from_environment() == 0 else f"{socket.gethostname()}: "
    print(f"{where}{line}", file=sys.stderr, flush=True)
