"""Write checkpoints in a thread, one at a time, while the training continues."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from distrain_trainer.checkpoint import files, reports
from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.head import FILE
from distrain_trainer.checkpoint.interval import SECONDS_TO_FIRST, interval
from distrain_trainer.checkpoint.layout import Part
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, Subject
from distrain_trainer.checkpoint.outage import Outage
from distrain_trainer.config import Config
from distrain_trainer.data.position import Position
from distrain_trainer.errors import FencedError, StorageError, UnavailableError
from distrain_trainer.results import Evaluation, LoggedStep

# Seconds between two attempts to save while the store fails. The pause doubles after each failed attempt.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# Seconds for which the last checkpoint is retried. It cannot be longer: after the grace period, Kubernetes kills the
# pod.
SECONDS_FOR_LAST = 20.0
SECONDS_BETWEEN_CHECKS = 0.1
# Rank 0 waits for the other ranks' files SECONDS_FOR_OTHERS longer than its own files took. Then the attempt fails.
SECONDS_FOR_OTHERS = 120.0


@dataclass(frozen=True)
class Member:
    """This rank, and the number of ranks that save a checkpoint together.

    `start` is a random text that is equal on all ranks and identifies this start of the run.
    """

    rank: int
    ranks: int
    start: str


@dataclass(frozen=True)
class Snapshot:
    """This rank's share of the state after a step.

    The arrays are in the writer's buffer. `parts` contains the offsets of the arrays in the buffer.
    """

    subject: Subject
    position: Position
    ranks: int
    history: list[LoggedStep]
    parts: Sequence[Part]
    evaluations: list[Evaluation] = field(default_factory=list)

    def manifest(self, sums: dict[str, FileSum]) -> Manifest:
        return Manifest(
            self.subject,
            self.position,
            self.ranks,
            time.time(),
            sums,
            history=self.history,
            evaluations=self.evaluations,
        )


# A function that copies the state into the buffer and returns its description.
Take = Callable[[], Snapshot]
# A function that all ranks call. Its argument is the reason why this rank could not write its files, or "". It returns
# the first nonempty reason of all ranks, or "".
Agree = Callable[[str], str]


class Writer:
    """Write snapshots in a thread. The thread puts log lines into `lines`, and the main thread prints them.

    There is only one buffer, so no snapshot can be taken while an earlier one is being written. Each rank writes its
    own files. Rank 0 also holds the lease, and completes the checkpoint. The other ranks have copies of the lease, only
    to check that no newer process has taken the run over.
    """

    def __init__(self, lease: Lease, buffer: Buffer, config: Config, *, ranks: int, member: Member) -> None:
        self.lease, self._buffer, self._config, self._ranks, self._member = lease, buffer, config, ranks, member
        self._given: Snapshot | None = None
        # A snapshot in the buffer that the thread may not write yet.
        self._held: Snapshot | None = None
        self._change = threading.Condition()
        # The writing thread and the main thread hold this lock while they use the buffer. `_given` describes the
        # snapshot in the buffer that the writing thread has to save.
        self._using_buffer = threading.Lock()
        self._is_busy = False
        self.outage = Outage()
        # The last state whose files this rank has written, identified by its number of samples.
        self._written_samples = -1
        # The last state whose files this rank has reported, or has tried to report, identified by its number of
        # samples.
        self._reported_samples = -1
        # The state that the main thread waits for, identified by its number of samples. For earlier states, rank 0 does
        # not wait for the other ranks.
        self._awaited_samples = -1
        # The last state that could not be saved, identified by its number of samples, and the time of the failure.
        self._failed = (-1, 0.0)
        self._taken = self._stall = 0.0
        # The number of seconds for which saving checkpoints has delayed the training so far.
        self.stalled = 0.0
        self.saved_samples = -1
        # The checkpoint that HEAD names, identified by its number of samples. That checkpoint counts as saved even
        # while older checkpoints are still being deleted.
        self._samples_in_head = -1
        self.seconds_left = math.inf
        """The training's, as far as it can be told."""
        self.lines: deque[str] = deque()
        self.saved: deque[dict[str, Any]] = deque()
        """The figures of saved checkpoints, for the record. The main thread takes them too."""
        self._due = self._due_without_cost()
        self._is_closed, self._closed_at = False, math.inf
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _due_without_cost(self) -> float:
        """Return when the next checkpoint is due.

        Called at the start and after a failure, when the cost of saving is unknown.
        """
        every = self._config.checkpoint_every
        return time.monotonic() + (SECONDS_TO_FIRST if every is None else every)

    def is_due(self) -> bool:
        """Return whether a checkpoint is due and no snapshot is waiting or being written."""
        return time.monotonic() >= self._due and not self._is_busy and self._held is None

    @property
    def has_unsaved(self) -> bool:
        """Whether there is an unsaved snapshot: one that is held, is being written, or will be retried."""
        return self._is_busy or self._given is not None or self._held is not None

    def save(self, take: Take, *, wait: float = 0.0, holds: bool = False) -> bool:
        """Take a snapshot, and let the thread save it. The new snapshot replaces a snapshot that could not be saved.

        With `holds`, the thread does not save the snapshot before `settle` is called. Return False if an earlier
        snapshot is still being written after `wait` seconds.
        """
        begun = time.monotonic()
        if not self._using_buffer.acquire(timeout=wait):
            return False
        try:
            # If the copy below fails, the buffer contains no complete state.
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
        """Save the held snapshot if the step after it was good, otherwise drop it.

        `step` is the number of steps made so far.
        """
        if self._held is None or step <= self._held.position.step:
            return
        if is_good:
            # One training step was made after the copy and before this call. Its time is not a cost of saving, so leave
            # it out.
            self._taken = time.monotonic() - self._stall
            self._give()
        else:
            self._held = None

    def _give(self) -> None:
        """Let the thread write the held snapshot."""
        with self._change:
            self._given, self._held, self._is_busy = self._held, None, True
            self._change.notify_all()

    def save_last(self, take: Take, samples: int, agree: Agree = str) -> str:
        """Save the state after `samples` samples. Return "" once the state is saved, or the reason why saving failed.

        `agree` is called after this rank has written its files or has given up. `agree` waits until all ranks have
        called it.
        """
        begun, self._awaited_samples = time.monotonic(), samples
        is_taken = self._try_again(samples)
        reason = self._written_or_not(take, samples, begun, is_taken=is_taken)
        if others := agree(reason):
            # Another rank has failed, so rank 0's thread need not wait for the other ranks' files.
            self._awaited_samples = samples + 1
            return others
        while not reason and self.saved_samples != samples:
            reason = self._why_not(samples, begun)
            with self._change:
                self._change.wait_for(lambda: self.saved_samples == samples, SECONDS_BETWEEN_CHECKS)
        return "" if self._samples_in_head == samples else reason

    def _written_or_not(self, take: Take, samples: int, begun: float, *, is_taken: bool) -> str:
        """Wait until this rank has written its files of the checkpoint after `samples` samples.

        Return "" if the files are written, otherwise the reason why they are not.
        """
        while samples not in (self._written_samples, self.saved_samples):
            is_taken = is_taken or self.save(take, wait=SECONDS_BETWEEN_CHECKS)
            if reason := self._why_not(samples, begun):
                return reason
            with self._change:
                self._change.wait_for(lambda: samples in (self._written_samples, self.saved_samples), 0.1)
        return ""

    def _why_not(self, samples: int, begun: float) -> str:
        """Return the reason why the state after `samples` samples will not be saved, or "" if it may still be saved."""
        if self.lease.is_fenced:
            return self.lease.fenced_by
        return self.outage.reason if self._is_hopeless(samples, begun) else ""

    def _try_again(self, samples: int) -> bool:
        """If the buffer contains the state after `samples` samples, save it now instead of after a pause.

        Return whether the buffer contains this state.
        """
        with self._change:
            is_taken = self._given is not None and self._given.position.samples == samples
            self._is_busy = self._is_busy or is_taken
            self._change.notify_all()
        return is_taken

    def _is_hopeless(self, samples: int, begun: float) -> bool:
        """Return whether to give up saving the state after `samples` samples. `begun` is the time of the first attempt.

        Give up if saving has failed and SECONDS_FOR_LAST have passed. If a write is in progress, wait for it, but give
        up if a single call takes longer than checkpoint.maxAge.
        """
        with self._change:
            of, when = self._failed
            has_failed = of == samples and when >= begun and not self._is_busy
        return self._hangs or (has_failed and time.monotonic() - begun > SECONDS_FOR_LAST)

    @property
    def _hangs(self) -> bool:
        return self.outage.silence > self._config.checkpoint_max_age

    def close(self) -> None:
        """Stop the thread, and wait until its current write is done. Python may abort if it exits during a write.

        Raises UnavailableError if one call takes longer than checkpoint.maxAge.
        """
        with self._change:
            self._is_closed, self._closed_at = True, time.monotonic()
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
                    pause = 0.0
                    with self._change:  # The main thread may have given another snapshot meanwhile.
                        self._is_busy = self._given is not None
                    continue
                try:
                    self._write(snapshot)
                except FencedError:
                    return
                except Exception as error:  # Catch every error: the training must continue.
                    pause = min(LONGEST_PAUSE, 2 * pause) if pause else FIRST_PAUSE
                    self._fail(snapshot, error)
                else:
                    pause = 0.0
                    self._succeed(snapshot)

    def _wait(self, pause: float) -> bool:
        """Wait for a new snapshot. If a snapshot has to be retried, wait at most `pause` seconds.

        Return False after close.
        """
        with self._change:
            self._change.wait_for(lambda: self._is_closed or self._is_busy, pause or None)
            self._is_busy = not self._is_closed
            return self._is_busy

    def _write(self, snapshot: Snapshot) -> None:
        name, store = self._name_of(snapshot), self.lease.store
        tell, member, begun = self.outage.note, self._member, time.monotonic()
        try:
            # Check the lease first: after a deletion of HEAD, another job may write checkpoints with the same names.
            self._require_lease()
            sums = files.write(store, name, snapshot.parts, self._buffer, tell)
            if member.rank:
                self._reported_samples = snapshot.position.samples
                reports.write(store, name, member.rank, member.start, sums, tell)
            else:
                self._note_written(snapshot)
                self._complete(snapshot, name, sums, time.monotonic() - begun)
        except StorageError as error:
            # If the server does not answer, do not delete the files, because the deletion would fail too. If this rank
            # has tried to report the files, keep them: rank 0 may have read the report even if writing it seemed to
            # fail.
            is_reported = self._reported_samples == snapshot.position.samples
            if not isinstance(error, UnavailableError) and not is_reported:
                files.delete_own(store, name, snapshot.parts, tell)
                if not member.rank:  # Only rank 0 knows that no older checkpoint is still being completed.
                    files.delete_torn(store, before=name, tell=tell)
            raise
        finally:
            self.outage.rest()

    def _require_lease(self) -> None:
        store = self.lease.store
        if self._member.rank:
            self.outage.note(f"reading {store.path(FILE)}")
            self.lease.require()
        else:
            self.outage.note(f"writing {store.path(FILE)}")
            self.lease.change()

    def _note_written(self, snapshot: Snapshot) -> None:
        with self._change:
            self._written_samples = snapshot.position.samples
            self._change.notify_all()

    def _complete(self, snapshot: Snapshot, name: str, sums: dict[str, FileSum], seconds: float) -> None:
        """Called by rank 0: wait for the other ranks' files, write the manifest, and name the checkpoint in HEAD.

        `seconds` is how long rank 0 took to write its own files.
        """
        store, tell, member = self.lease.store, self.outage.note, self._member
        samples = snapshot.position.samples
        others = reports.wait(
            *(store, name, member.ranks, member.start, tell),
            seconds=SECONDS_FOR_OTHERS + seconds,
            is_wanted=lambda: self._is_wanted(samples),
        )
        files.complete(store, name, snapshot.manifest({**sums, **others}), tell)
        tell(f"writing {store.path(FILE)}")
        self.lease.change(checkpoint=name)
        self._samples_in_head = samples
        reports.delete(store, name, member.ranks, tell)
        files.prune(store, keep=self._config.checkpoint_keep, current=name, tell=tell)

    def _is_wanted(self, samples: int) -> bool:
        """Return whether rank 0 should still wait for the other ranks' files.

        These files contain the state after `samples` samples.
        """
        return samples >= self._awaited_samples and time.monotonic() - self._closed_at < SECONDS_FOR_LAST

    def _name_of(self, snapshot: Snapshot) -> str:
        return files.name_of(self.lease.head.generation, snapshot.position.samples)

    def _fail(self, snapshot: Snapshot, error: Exception) -> None:
        reason = str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
        with self._change:
            self.outage.add(snapshot.position.step, reason)
            # If saving this state failed before, do not change the time of the next snapshot: another rank may lack the
            # state, and then every retry fails.
            if self._failed[0] != snapshot.position.samples:
                self._due = self._due_without_cost()
            self._failed = (snapshot.position.samples, time.monotonic())
            self._is_busy = False
            self._change.notify_all()

    def _succeed(self, snapshot: Snapshot) -> None:
        position, seconds, name = snapshot.position, time.monotonic() - self._taken, self._name_of(snapshot)
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
        """Compute the time of the next checkpoint from the cost of the last one.

        Return a text about the interval, for the log.
        """
        following = interval(self._config.checkpoint_every, stall=self._stall, write=seconds, ranks=self._ranks)
        wait = max(0.0, following.seconds - seconds)
        self._due = time.monotonic() + wait
        if wait >= self.seconds_left:
            return "none is due before the run's end"
        return f"next in {wait:.0f} s ({following.reason})"
