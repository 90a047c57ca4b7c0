"""Write checkpoints in a thread, one at a time, while the training continues."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from distrain_trainer.checkpoint import files
from distrain_trainer.checkpoint.arrays import Buffer, Part
from distrain_trainer.checkpoint.head import FILE
from distrain_trainer.checkpoint.interval import SECONDS_TO_FIRST, interval
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, Subject
from distrain_trainer.checkpoint.outage import Outage
from distrain_trainer.config import Config
from distrain_trainer.data.position import Position
from distrain_trainer.errors import FencedError, StorageError, UnavailableError
from distrain_trainer.results import Evaluation, LoggedStep

# Seconds between two attempts to save while the store fails. The pause doubles each time.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# Seconds for which the last checkpoint is retried: after the grace period Kubernetes kills the pod.
SECONDS_FOR_LAST = 20.0
SECONDS_BETWEEN_CHECKS = 0.1


@dataclass(frozen=True)
class Snapshot:
    """The state after a step. Its arrays are in the writer's buffer, described by `parts`."""

    subject: Subject
    position: Position
    ranks: int
    history: list[LoggedStep]
    parts: Sequence[Part]
    evaluations: list[Evaluation] = field(default_factory=list)

    def checkpoint(self, generation: int, buffer: Buffer) -> files.Checkpoint:
        sums = {part.file: FileSum.of(buffer.span(part.start, part.end)) for part in self.parts}
        manifest = Manifest(
            self.subject,
            self.position,
            self.ranks,
            time.time(),
            sums,
            history=self.history,
            evaluations=self.evaluations,
        )
        return files.Checkpoint(files.name_of(generation, self.position.samples), manifest, self.parts)


# Copies the state into the buffer, and describes it.
Take = Callable[[], Snapshot]


class Writer:
    """Write snapshots in a thread. The main thread prints the lines that this thread puts into `lines`.

    There is one buffer, so a snapshot can be taken only while no earlier one is being written.
    """

    def __init__(self, lease: Lease, buffer: Buffer, config: Config, *, ranks: int) -> None:
        self.lease, self._buffer, self._config, self._ranks = lease, buffer, config, ranks
        self._given: Snapshot | None = None
        # A snapshot in the buffer that is not yet given to the thread.
        self._held: Snapshot | None = None
        self._change = threading.Condition()
        # Held while the buffer is read or written. `_given` is the snapshot in the buffer.
        self._using_buffer = threading.Lock()
        self._is_busy = False
        self.outage = Outage()
        # The samples of the last state that could not be saved, and the time of the failure.
        self._failed = (-1, 0.0)
        self._taken = self._stall = 0.0
        # For how long checkpoints have held the training up so far, in seconds.
        self.stalled = 0.0
        self.saved_samples = -1
        # The samples of the checkpoint in HEAD. It is saved, even while older checkpoints are still being deleted.
        self._samples_in_head = -1
        self.seconds_left = math.inf
        """The training's, as far as it can be told."""
        self.lines: deque[str] = deque()
        self.saved: deque[dict[str, Any]] = deque()
        """The figures of saved checkpoints, for the record. The main thread takes them too."""
        self._due = self._due_without_cost()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _due_without_cost(self) -> float:
        """Return when the next checkpoint is due if the cost of saving is unknown, at the start and after a failure."""
        every = self._config.checkpoint_every
        return time.monotonic() + (SECONDS_TO_FIRST if every is None else every)

    def is_due(self) -> bool:
        """Return whether a checkpoint is due and none is held or being written."""
        return time.monotonic() >= self._due and not self._is_busy and self._held is None

    def save(self, take: Take, *, wait: float = 0.0, holds: bool = False) -> bool:
        """Take a snapshot, and let the thread save it. It replaces a snapshot that could not be saved.

        With `holds` the thread saves it only after `settle`. Return False if an earlier snapshot is still being written
        after `wait` seconds.
        """
        begun = time.monotonic()
        if not self._using_buffer.acquire(timeout=wait):
            return False
        try:
            # If the copy fails, the buffer holds no complete state.
            self._given = self._held = None
            free = time.monotonic()
            self._held, self._taken = take(), begun
            self._stall = time.monotonic() - free
            self.stalled += self._stall
        finally:
            self._using_buffer.release()
        if not holds:
            self._give()
        return True

    def settle(self, step: int, *, is_good: bool) -> None:
        """After `step` steps, save the held snapshot if the step after it was good, otherwise drop it."""
        if self._held is None or step <= self._held.position.step:
            return
        if is_good:
            self._taken = time.monotonic() - self._stall  # The step in between is no part of the checkpoint's cost.
            self._give()
        else:
            self._held = None

    def _give(self) -> None:
        """Give the held snapshot to the thread."""
        with self._change:
            self._given, self._held, self._is_busy = self._held, None, True
            self._change.notify_all()

    def save_last(self, take: Take, samples: int) -> str:
        """Save the state after `samples` samples. Return "" after it is saved, or the reason why it cannot be saved."""
        begun = time.monotonic()
        is_taken = self._try_again(samples)
        while self.saved_samples != samples:
            is_taken = is_taken or self.save(take, wait=0.1)
            if self.lease.is_fenced:
                return self.lease.fenced_by
            if self._is_hopeless(samples, begun):
                return "" if self._samples_in_head == samples else self.outage.reason
            with self._change:
                self._change.wait_for(lambda: self.saved_samples == samples, 0.1)
        return ""

    def _try_again(self, samples: int) -> bool:
        """Retry at once if the buffer holds the state after `samples` samples. Return whether it does."""
        with self._change:
            is_taken = self._given is not None and self._given.position.samples == samples
            self._is_busy = self._is_busy or is_taken
            self._change.notify_all()
        return is_taken

    def _is_hopeless(self, samples: int, begun: float) -> bool:
        """Return whether to give up saving the state after `samples` samples, which began at the time `begun`.

        Give up if it failed and SECONDS_FOR_LAST have passed. Wait for a write in progress, but no longer than
        checkpoint.maxAge for one call.
        """
        with self._change:
            of, when = self._failed
            has_failed = of == samples and when >= begun and not self._is_busy
        return self._hangs or (has_failed and time.monotonic() - begun > SECONDS_FOR_LAST)

    @property
    def _hangs(self) -> bool:
        return self.outage.silence > self._config.checkpoint_max_age

    def close(self) -> None:
        """Stop the thread, and wait for its current write: exiting during a write may abort the process.

        Raises UnavailableError if one call takes longer than checkpoint.maxAge.
        """
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        while self._thread.is_alive():
            if self._hangs:
                raise UnavailableError(f"checkpoint.maxAge: the training is over, but {self.outage.reason}")
            self._thread.join(SECONDS_BETWEEN_CHECKS)

    def _work(self) -> None:
        pause = 0.0
        while self._wait(pause):
            with self._using_buffer:
                snapshot = self._given
                if snapshot is None:
                    self._is_busy, pause = False, 0.0
                    continue
                try:
                    self._write(snapshot)
                except FencedError:
                    return
                except Exception as error:  # The training continues, whatever the error is.
                    pause = min(LONGEST_PAUSE, 2 * pause) if pause else FIRST_PAUSE
                    self._fail(snapshot, error)
                else:
                    pause = 0.0
                    self._succeed(snapshot)

    def _wait(self, pause: float) -> bool:
        """Wait for a new snapshot, but at most `pause` seconds if one is to be retried. Return False after close."""
        with self._change:
            self._change.wait_for(lambda: self._is_closed or self._is_busy, pause or None)
            self._is_busy = True
            return not self._is_closed

    def _write(self, snapshot: Snapshot) -> None:
        checkpoint, store = snapshot.checkpoint(self.lease.head.generation, self._buffer), self.lease.store
        tell = self.outage.note
        try:
            # Check the lease first: if HEAD was deleted, another job may write checkpoints of the same names.
            tell(f"writing {store.path(FILE)}")
            self.lease.change()
            files.write(store, checkpoint, self._buffer, tell)
            tell(f"writing {store.path(FILE)}")
            self.lease.change(checkpoint=checkpoint.name)
            self._samples_in_head = snapshot.position.samples
            files.prune(store, keep=self._config.checkpoint_keep, current=checkpoint.name, tell=tell)
        except StorageError as error:
            # A server that does not answer cannot delete files either.
            if not isinstance(error, UnavailableError):
                files.delete_torn(store, up_to=checkpoint.name, tell=tell)
            raise
        finally:
            self.outage.rest()

    def _fail(self, snapshot: Snapshot, error: Exception) -> None:
        reason = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
        with self._change:
            self.outage.add(snapshot.position.step, reason)
            self._failed = (snapshot.position.samples, time.monotonic())
            self._is_busy = False
            self._due = self._due_without_cost()
            self._change.notify_all()

    def _succeed(self, snapshot: Snapshot) -> None:
        position, seconds = snapshot.position, time.monotonic() - self._taken
        name = files.name_of(self.lease.head.generation, position.samples)
        with self._change:
            self._given = None
            self.lines.append(
                f"checkpoint: saved {name} at step {position.step} ({position.samples} samples), {seconds:.1f} s, "
                f"held the training up for {self._stall:.3f} s; {self._plan_next(seconds)}"
            )
            figures = {"checkpoint": name, "step": position.step, "samples": position.samples}
            self.saved.append({**figures, "write_seconds": seconds, "stall_seconds": self._stall})
            self.outage.end()
            self._is_busy, self.saved_samples = False, position.samples
            self._change.notify_all()

    def _plan_next(self, seconds: float) -> str:
        """Set the time of the next checkpoint, from the cost of the last one. Return a text about it for the log."""
        following = interval(self._config.checkpoint_every, stall=self._stall, write=seconds, ranks=self._ranks)
        wait = max(0.0, following.seconds - seconds)
        self._due = time.monotonic() + wait
        if wait >= self.seconds_left:
            return "none is due before the run's end"
        return f"next in {wait:.0f} s ({following.reason})"
