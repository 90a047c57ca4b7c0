"""Write checkpoints in a thread, one at a time, while the training goes on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from distrain_trainer.checkpoint import shelf
from distrain_trainer.checkpoint.hold import Hold
from distrain_trainer.checkpoint.interval import SECONDS_TO_FIRST, seconds_between
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, Subject
from distrain_trainer.checkpoint.trouble import Trouble
from distrain_trainer.data.position import Position
from distrain_trainer.errors import FencedError, StorageError
from distrain_trainer.results import LoggedStep

# Between attempts to save where the store fails: twice as long each time.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# How long the last one is tried where the store fails: Kubernetes ends what does not stop.
SECONDS_FOR_LAST = 20.0
SECONDS_TO_CLOSE = 60.0


@dataclass(frozen=True)
class Snapshot:
    """The state after a step, in host memory, and how to make a file of it."""

    subject: Subject
    position: Position
    ranks: int
    history: list[LoggedStep]
    file: str
    encode: Callable[[], bytes]
    taken: float
    """When the copy was begun, by time.monotonic()."""

    def checkpoint(self, generation: int) -> shelf.Checkpoint:
        content = self.encode()
        sums = {self.file: FileSum.of(content)}
        manifest = Manifest(self.subject, self.position, self.ranks, time.time(), sums, self.history)
        return shelf.Checkpoint(shelf.name_of(generation, self.position.samples), manifest, {self.file: content})


class Saver:
    """Saves the snapshots it is given. The lines that it has to say are left for the main thread to print."""

    def __init__(self, hold: Hold, *, keep: int, every: float | None, ranks: int) -> None:
        self._hold, self._keep, self._every, self._ranks = hold, keep, every, ranks
        self._given: Snapshot | None = None
        self._change = threading.Condition()
        self._is_busy = False
        self.trouble = Trouble()
        self.saved_samples = -1
        self.lines: deque[str] = deque()
        self._due = time.monotonic() + (SECONDS_TO_FIRST if every is None else every)
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def is_due(self) -> bool:
        """Tell whether it is time for another one, and none is being written."""
        return time.monotonic() >= self._due and not self._is_busy

    def save(self, snapshot: Snapshot) -> None:
        """Have a snapshot saved. One that could not be saved yet gives way to it."""
        with self._change:
            self._given, self._is_busy = snapshot, True
            self._change.notify_all()

    def save_last(self, snapshot: Snapshot) -> str:
        """Save a snapshot, and return when that is done: what is in the way, where it cannot be."""
        self.save(snapshot)
        begun = time.monotonic()
        with self._change:
            while self.saved_samples != snapshot.position.samples:
                if self._hold.is_fenced:
                    return self._hold.fenced_by
                if self.trouble and time.monotonic() - begun > SECONDS_FOR_LAST:
                    return self.trouble.reason
                self._change.wait(0.1)
        return ""

    def close(self) -> None:
        """Save nothing more, and wait for what is being written: an exit amidst a framework's code may abort."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        self._thread.join(SECONDS_TO_CLOSE)

    def _work(self) -> None:
        pause = 0.0
        snapshot: Snapshot | None = None
        while (snapshot := self._next(pause, snapshot)) is not None:
            try:
                seconds = self._write(snapshot)
            except FencedError:
                return
            except Exception as error:  # Whatever it is, the training goes on.
                pause = min(LONGEST_PAUSE, 2 * pause) if pause else FIRST_PAUSE
                self._fail(snapshot, error)
            else:
                pause = 0.0
                self._succeed(snapshot, seconds)

    def _next(self, pause: float, tried: Snapshot | None) -> Snapshot | None:
        """Wait for a snapshot; where the last one tried is not saved, no longer than the pause. None once closed."""
        with self._change:
            if pause:
                self._change.wait_for(lambda: self._is_closed or self._given is not tried, pause)
            else:
                self._change.wait_for(lambda: self._is_closed or self._given is not None)
            if self._is_closed:
                return None
            self._is_busy = True
            return self._given

    def _write(self, snapshot: Snapshot) -> float:
        checkpoint = snapshot.checkpoint(self._hold.head.generation)
        shelf.write(self._hold.store, checkpoint)
        self._hold.change(checkpoint=checkpoint.name)
        seconds = time.monotonic() - snapshot.taken
        shelf.prune(self._hold.store, keep=self._keep, current=checkpoint.name)
        return seconds

    def _fail(self, snapshot: Snapshot, error: Exception) -> None:
        reason = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
        with self._change:
            self.trouble.add(snapshot.position.step, reason)
            self._is_busy = self._given is not snapshot
            self._due = time.monotonic() + (SECONDS_TO_FIRST if self._every is None else self._every)
            self._change.notify_all()

    def _succeed(self, snapshot: Snapshot, seconds: float) -> None:
        position = snapshot.position
        with self._change:
            if self._given is snapshot:
                self._given = None
            following = seconds_between(self._every, cost=seconds, ranks=self._ranks)
            self._due = time.monotonic() + following
            name = shelf.name_of(self._hold.head.generation, position.samples)
            self.lines.append(
                f"checkpoint: saved {name} at step {position.step} ({position.samples} samples), {seconds:.1f} s, "
                f"next in {following:.0f} s"
            )
            self.trouble.end()
            self._is_busy, self.saved_samples = self._given is not None, position.samples
            self._change.notify_all()
