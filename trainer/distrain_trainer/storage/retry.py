"""During an outage of a store, retry calls to it and log a line once a minute.

boto3 itself makes only three attempts within seconds. This module retries during longer outages: a server that
restarts, a DNS failure, or a service that throttles its clients.
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
    Termination,
    UnavailableError,
    rank_from_environment,
)

T = TypeVar("T")

# Seconds for which a call is retried, enough for an outage of five minutes. After that the call fails.
SECONDS_TO_WAIT = 600.0
SECONDS_BETWEEN_LINES = 60.0
# Seconds between two attempts. The pause doubles after each attempt. A random factor keeps the ranks from retrying all
# at the same time.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
# Use a separate generator, so that retries do not change the random numbers of the training.
_chance = random.Random()
# Maps a thread's id to the time when its current call began.
_calling: dict[int, float] = {}
# A call that takes more seconds than this counts as waiting for the store.
SECONDS_OF_A_CALL = 10.0
# Maps the id of a Retry to the time when its last call failed, if the store was unavailable. The process then counts as
# waiting for the store until a call succeeds, because the writer of checkpoints may pause for a minute before it
# retries. After SECONDS_IN_VAIN the process no longer counts as waiting.
_in_vain: dict[int, float] = {}
SECONDS_IN_VAIN = 120.0


def is_waited_for() -> bool:
    """Return whether this process is waiting for a store.

    Other ranks may then wait for their input too, because they use the same store.
    """
    now = time.monotonic()
    is_late = any(now - since > SECONDS_OF_A_CALL for since in list(_calling.values()))
    return is_late or any(now - when < SECONDS_IN_VAIN for when in list(_in_vain.values()))


class Retry:
    """Retry failed calls to a store, for a limited time. Threads that share one Retry log an outage only once.

    If the store refuses the very first call (wrong keys, no such bucket), the call fails immediately. If the store has
    allowed the same verb before, a refused call is retried too. The permission may be granted again, and waiting costs
    less than losing the training.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        allowed: tuple[str, ...] = (),
        heeds_sigterm: bool = False,
        is_awaited: bool = True,
    ) -> None:
        """Retry for `seconds` after the first failure of a call.

        The default is SECONDS_TO_WAIT, and 0 disables retries.

        `allowed` are verbs (list, read, write) that the store is already known to allow. With `heeds_sigterm`, a signal
        ends the retries. Set `heeds_sigterm` at the start of a run, when there is nothing to save yet. `is_awaited` is
        false if the training never waits for these calls.
        """
        self._heeds_sigterm, self._is_awaited = heeds_sigterm, is_awaited
        self._seconds = SECONDS_TO_WAIT if seconds is None else seconds
        self._allowed = {*allowed}
        self._lock = threading.Lock()
        self._is_told = False
        self._out_since: float | None = None
        self._last_line = -math.inf

    def call(self, verb: str, function: Callable[[], T]) -> T:
        """Call `function` until it succeeds, and return its result.

        Raises StorageError if the store refuses, UnavailableError after the time limit, StoppedError after a signal.
        """
        try:
            if not self._seconds:
                answer = function()
            else:
                with _noted():
                    answer = self._call(verb, function)
                self._allowed.add(verb)
                self._tell_end()
        except UnavailableError:
            if self._is_awaited:
                _in_vain[id(self)] = time.monotonic()
            raise
        _in_vain.pop(id(self), None)
        return answer

    def _call(self, verb: str, function: Callable[[], T]) -> T:
        pause, failing_since = FIRST_PAUSE, math.inf
        while True:
            try:
                return function()
            except StorageError as error:
                if not self._may_pass(verb, error):
                    raise
                now = time.monotonic()
                failing_since = min(failing_since, now)
                left = self._seconds - (now - failing_since)
                if left <= 0:
                    raise UnavailableError(str(error)) from None
                if self._heeds_sigterm and Termination.requested:
                    _print(f"{error}; stopped before the training began")
                    raise StoppedError from None
                self._tell(f"{error}; trying again for {left:.0f} s", failing_since)
            time.sleep(pause * _chance.uniform(0.5, 1))
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _may_pass(self, verb: str, error: StorageError) -> bool:
        # After the main thread has ended, only prefetching threads run, and nobody needs their results.
        if isinstance(error, MissingError) or not threading.main_thread().is_alive():
            return False
        return isinstance(error, UnavailableError) or verb in self._allowed

    def _tell(self, line: str, failing_since: float) -> None:
        with self._lock:
            self._out_since = failing_since if self._out_since is None else self._out_since
            # During the first minute of an outage only rank 0 logs it, because the other ranks would log the same
            # outage.
            spoken = self._last_line if rank_from_environment() == 0 else max(failing_since, self._last_line)
            if time.monotonic() - spoken >= SECONDS_BETWEEN_LINES:
                self._last_line, self._is_told = time.monotonic(), True
                _print(line)

    def _tell_end(self) -> None:
        with self._lock:
            if self._out_since is not None and self._is_told:
                _print(f"the storage answers again, after {time.monotonic() - self._out_since:.0f} s")
            self._out_since, self._is_told = None, False


@contextmanager
def _noted() -> Iterator[None]:
    """Record in `_calling` that this thread waits for a store."""
    thread = threading.get_ident()
    _calling[thread] = time.monotonic()
    try:
        yield
    finally:
        _calling.pop(thread, None)


def _print(line: str) -> None:
    where = "" if rank_from_environment() == 0 else f"{socket.gethostname()}: "
    print(f"{where}{line}", file=sys.stderr, flush=True)
