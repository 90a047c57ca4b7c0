"""Hold the lease on a run: acquire HEAD, renew its heartbeat, and notice if another generation has taken HEAD."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

from distrain_trainer.checkpoint import files
from distrain_trainer.checkpoint import head as heads
from distrain_trainer.checkpoint.head import FINISHED, TRAINING, End, Head, Holder
from distrain_trainer.errors import (
    ConflictError,
    FencedError,
    StoppedError,
    StorageError,
    Termination,
    UnavailableError,
)
from distrain_trainer.storage import Store

Say = Callable[[str], None]
SECONDS_BETWEEN_CHECKS = 1.0
# The largest difference between two machines' clocks. S3 itself refuses requests whose time is 15 minutes wrong.
SECONDS_OF_SKEW = 900.0
# Attempts to change HEAD. Another process rarely changes HEAD more than once or twice meanwhile. After more conflicts
# than that, the store's tags must be wrong.
CONFLICTS = 10
# An ETag that no file has: no known content has this MD5 sum.
WRONG_TAG = f'"{"0" * 32}"'


class Lease:
    """This process's right to change HEAD. Once another generation holds HEAD, every attempt to change HEAD fails."""

    def __init__(self, store: Store, head: Head, tag: str) -> None:
        self.store, self.head = store, head
        # None if somebody has deleted HEAD. The next change then creates HEAD again.
        self._tag: str | None = tag
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self.fenced_by = ""
        """Who holds the run now, in a sentence, once it is no longer this process."""

    @property
    def is_fenced(self) -> bool:
        return bool(self.fenced_by)

    @property
    def is_asked_for(self) -> bool:
        """Whether another job waits for this job to stop."""
        return self.head.successor is not None

    def change(self, **to: Any) -> None:
        """Change HEAD.

        Raises FencedError if another generation holds HEAD, and StorageError if HEAD cannot be written.
        """
        with self._changing:
            for _ in range(CONFLICTS):
                new = replace(self.head, heartbeat=heads.now(), **to)
                try:
                    self._tag = self.store.write_if(heads.FILE, new.to_json(), self._tag)
                except ConflictError:
                    self._read_head()
                else:
                    self.head = new
                    return
        why = "the store says at each write that the file has changed, although it was read again each time"
        raise UnavailableError(f"{self.store.value}: {self.store.path(heads.FILE)} cannot be written: {why}")

    def require(self) -> None:
        """Raise FencedError if another generation holds HEAD, and StorageError if HEAD cannot be read."""
        with self._changing:
            self._read_head()

    def _read_head(self) -> None:
        """Read HEAD. Raises FencedError if another generation holds HEAD.

        If somebody has deleted HEAD, this is no error: the next change creates HEAD again.
        """
        found = heads.read(self.store)
        if found is None:
            self._tag = None
            return
        head = found[0]
        if (head.generation, head.holder) != (self.head.generation, self.head.holder):
            self.fenced_by = (
                f"{self.store.value}: {self.store.uri} is held by generation {head.generation} (job {head.job}) and no "
                f"longer by generation {self.head.generation}; this job is over"
            )
            raise FencedError(self.fenced_by)
        # The generation is unchanged, so this process still holds HEAD. Only another job that asks to take over the run
        # can have changed HEAD.
        self.head, self._tag = found

    def beat(self) -> None:
        """Start the thread that renews the heartbeat in HEAD every SECONDS_BETWEEN_BEATS."""
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        while not self._ended.wait(heads.SECONDS_BETWEEN_BEATS):
            # Ignore these errors here: the writer reports failures of the store.
            with contextlib.suppress(StorageError, FencedError):
                self.change()

    def end(self, state: str, end: End | None = None, *, max_age: float = math.inf) -> None:
        """Release the lease, and mark the run in HEAD as stopped, or as finished at the point `end`.

        Raises FencedError, StorageError, or TimeoutError if writing HEAD takes longer than `max_age` seconds.
        """
        self._ended.set()
        returned: Future[None] = Future()
        threading.Thread(target=self._end, args=[returned, state, end], daemon=True).start()
        wait([returned], min(max_age, threading.TIMEOUT_MAX))
        if not returned.done():
            raise TimeoutError(f"writing {self.store.path(heads.FILE)} has not returned for {max_age:.0f} s")
        returned.result()

    def _end(self, returned: Future[None], state: str, end: End | None) -> None:
        try:
            self.change(state=state, end=end)
        except BaseException as error:
            returned.set_exception(error)
        else:
            returned.set_result(None)


def acquire(store: Store, mine: Holder, *, resumes: bool, lacks: Callable[[Head], str], say: Say) -> Lease | None:
    """Wait until this process holds HEAD, and return the lease.

    Return None if the run is finished and lacks nothing. Raises FencedError, StorageError, or StoppedError if a signal
    arrives during the wait.

    `lacks` returns a text that names the steps or results that the finished run lacks, or "" if it lacks nothing. If
    the run lacks something, this process takes the run and continues it. If `lacks` raises an exception, HEAD is not
    changed, so the run is still marked as finished. Without `resumes`, a new job begins the training again from step 0,
    but restarted pods of the same job continue.
    """
    require_conditions = _probe(store, say)
    liveness = Liveness()
    while True:
        found = heads.read(store)
        if found is None:
            begun = _write(store, _in_place_of_none(store, mine, resumes, say), None)
        else:
            head, tag = found
            _require_welcome(store, head, mine)
            if head.state == FINISHED and (resumes or mine.shares_pods(head.pods)):
                lacking = lacks(head)
                if not lacking:
                    return None
                say(f"goes on with a run that had finished: {lacking}")
            if head.job != mine.job:
                require_conditions(head)
                if liveness.is_given(head):
                    _ask(store, head, tag, mine, say)
                    _pause(head, store, say)
                    continue
            taken = head.passed_to(mine)
            goes_on = resumes or (head.job == mine.job and mine.shares_pods(head.pods))
            begun = _write(store, taken if goes_on else taken.begun_anew(), tag)
        if begun is not None:
            return begun


def _in_place_of_none(store: Store, mine: Holder, resumes: bool, say: Say) -> Head:
    """Return the first HEAD of a run.

    If somebody has deleted HEAD but not the checkpoints, the new HEAD names the newest of these checkpoints.
    """
    generation, newest = files.last_there(store)
    head = replace(Head.first(mine), generation=generation + 1, checkpoint=newest)
    if not resumes:
        return head.begun_anew()
    if newest:
        say(f"checkpoint: {store.path(heads.FILE)} is gone; resuming from the newest checkpoint, {newest}")
    return head


def _pause(head: Head, store: Store, say: Say) -> None:
    if Termination.requested:
        say(f"stopped before the training began, while waiting for job {head.job}, which holds {store.uri}")
        raise StoppedError
    time.sleep(SECONDS_BETWEEN_CHECKS)


def _write(store: Store, head: Head, tag: str | None) -> Lease | None:
    try:
        return Lease(store, head, store.write_if(heads.FILE, head.to_json(), tag))
    except ConflictError:  # Another process was first. The caller then reads the HEAD that the other process wrote.
        return None


def _require_welcome(store: Store, head: Head, mine: Holder) -> None:
    if mine.shares_pods(head.retired):
        raise FencedError(f"{store.value}: job {head.job} has taken over {store.uri} from this job, which is over")


def _ask(store: Store, head: Head, tag: str, mine: Holder, say: Say) -> None:
    """Ask the holder of HEAD to stop at its next step, unless this job has asked already. Log a line."""
    if head.successor == mine:
        return
    with contextlib.suppress(ConflictError):
        store.write_if(heads.FILE, head.asked_by(mine).to_json(), tag)
        say(f"waiting for job {head.job}, which holds {store.uri}, to stop")


@dataclass
class Liveness:
    """Decide whether the holder of HEAD is alive: measure for how long the heartbeat in HEAD has not changed.

    At the first check, the holder counts as dead only if its heartbeat is more than SECONDS_OF_SKEW old. If two checks
    are far apart, the measurement starts again. The likely cause is an outage of the store, in which the holder could
    not write its heartbeat either.
    """

    last_beat: float = 0.0
    seen: float = 0.0
    last_check: float = 0.0

    def is_given(self, head: Head) -> bool:
        """Return whether this process must wait for the holder of HEAD."""
        if head.state != TRAINING:
            return False
        now, before = time.monotonic(), self.last_check
        self.last_check = now
        if head.heartbeat != self.last_beat:
            self.last_beat, self.seen = head.heartbeat, now
            return bool(before) or heads.now() - head.heartbeat < SECONDS_OF_SKEW
        if now - before > heads.SECONDS_OF_SILENCE / 3:
            self.seen = now
        return now - self.seen < heads.SECONDS_OF_SILENCE


def _probe(store: Store, say: Say) -> Callable[[Head], None]:
    """Test whether the store supports conditional writes, with a probe file.

    Return a function that the caller must call before this job takes HEAD from another job. That function raises
    StorageError if the store ignores conditions.
    """
    name = f"probe-{uuid.uuid4()}"
    try:
        store.write_if(name, b"1", None)
        store.write_if(name, b"2", None)
    except ConflictError:
        heeds = _heeds_tags(store, name)
    else:
        heeds = False
    finally:
        with contextlib.suppress(StorageError):
            store.delete(name)
    if heeds:
        return lambda head: None
    say(f"checkpoint: {store.uri} ignores If-Match, so it cannot keep jobs apart: never let two jobs use it at once")
    return lambda head: _refuse(store, head)


def _heeds_tags(store: Store, name: str) -> bool:
    try:
        store.write_if(name, b"3", WRONG_TAG)
    except ConflictError:
        return True
    return False


def _refuse(store: Store, head: Head) -> None:
    raise StorageError(
        f"{store.value}: {store.uri} is held by job {head.job}, and the store ignores If-Match, so it cannot keep the "
        f"two jobs apart; end that job and remove {store.path(heads.FILE)}, or use another store"
    )
