"""A training run as its program sees it: resume, count and save steps, stop, finish."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from distrain_trainer.checkpoint import arrays, completion, files
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint import manifest as manifests
from distrain_trainer.checkpoint.arrays import Arrays, Buffer, Fields
from distrain_trainer.checkpoint.completion import End
from distrain_trainer.checkpoint.head import FILE, FINISHED, STOPPED, Head, Holder
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.manifest import Manifest, Subject
from distrain_trainer.checkpoint.writer import Snapshot, Writer
from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, Position, count_steps
from distrain_trainer.errors import FencedError, FinishedError, StoppedError, StorageError, UnavailableError
from distrain_trainer.log import Log
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.beacon import Beacon
from distrain_trainer.loop.watchdog import Watchdog
from distrain_trainer.results import LoggedStep
from distrain_trainer.storage import Patience, Store, open_store

VALUE = "checkpoint.uri"
# What is broadcast at once. It is pickled on the way, so there are some copies of it.
CHUNK = 4 * 1024**2
# How long the end of a training is told to a store that does not answer.
SECONDS_TO_FINISH = 60.0


class State(Protocol):
    """All that a framework keeps from step to step, as named arrays.

    A model's own arrays have names that begin with `model.`. Random numbers need no place here: each step's follow from
    the seed and the samples seen, which are in the manifest.
    """

    def fields(self) -> Fields:
        """Return the type and the shape of each array that there is now."""

    def wait(self) -> None:
        """Wait for what the last step still computes, as the next step would."""

    def copy(self, into: Arrays) -> None:
        """Copy each array to its place in host memory."""

    def load(self, arrays: Arrays) -> None:
        """Take over a state. The arrays stay as they are until the next copy."""

    def former(self, content: bytes) -> Arrays:
        """Return the arrays of a state that was saved in the first format, in the framework's own kind of file."""


@dataclass(frozen=True)
class ProcessGroup:
    """This rank, the number of ranks, and two collectives: broadcast from rank 0, and gather to all ranks.

    With parameter servers `shares_state` is false: rank 0 alone needs the state.
    """

    rank: int
    size: int
    broadcast: Callable[[Any], Any]
    gather: Callable[[Any], list[Any]]
    shares_state: bool = True


@dataclass
class Pace:
    """The speed of the steps, from which the remaining time follows."""

    steps: int = 0
    made: int = 0
    begun: float = 0.0

    def after_step(self) -> float:
        """Count a step. Return the seconds that the others will take."""
        self.begun = self.begun or time.monotonic()
        self.made += 1
        passed = time.monotonic() - self.begun
        # The first step, which also compiles, is before the time counts.
        return (self.steps - self.made) * passed / (self.made - 1) if self.made > 1 else math.inf


@dataclass
class Run:
    """A run of the training. Without `--checkpoint` it only counts steps. Rank 0 alone uses the store."""

    config: Config
    group: ProcessGroup
    log: Log
    state: State
    subject: Subject
    position: Position = field(default_factory=Position)
    history: list[LoggedStep] = field(default_factory=list)
    watchdog: Watchdog = field(default_factory=Watchdog)
    request: stop_flag.StopRequest = field(default_factory=stop_flag.StopRequest)
    writer: Writer | None = None
    lease: Lease | None = None
    buffer: Buffer = field(default_factory=Buffer)
    pace: Pace = field(default_factory=Pace)

    @classmethod
    def begin(cls, config: Config, dataset: Dataset, state: State, group: ProcessGroup, log: Log) -> Run:
        """Acquire the run, and load its newest good checkpoint. Called by all ranks, once they are connected.

        Raises FinishedError, FencedError, StorageError, and CheckpointError where the checkpoint is of something else.
        """
        samples = None if config.is_synthetic else len(dataset.train)
        shapes = arrays.shapes(state.fields())
        subject = Subject(config.framework, config.model, config.optimizer, config.seed, samples, shapes)
        run = cls(config, group, log, state, subject)
        if config.checkpoint:
            run.request.listen()
            run.watchdog.beacon = beacon = Beacon()
            told = group.gather((os.environ.get("DISTRAIN_POD_UID", ""), beacon.endpoint))
            pods, endpoints = ([*each] for each in zip(*told, strict=True))
            beacon.listen(endpoints)
            run._resume(run._acquire(pods) if group.rank == 0 else None)
            steps = count_steps(config, dataset, ranks=group.size, start=run.position)
            run.pace = Pace(steps - run.position.step)
        return run

    def _acquire(self, pods: list[str]) -> files.Checkpoint | str | None:
        """Acquire the lease. Return the checkpoint to resume from, None without one, or FINISHED. Called by rank 0."""
        store = open_store(self.config.checkpoint, value=VALUE, patience=Patience(heeds_sigterm=True))
        mine = Holder(os.environ.get("DISTRAIN_JOB", ""), tuple(sorted({pod for pod in pods if pod})))
        resumes, say = self.config.resume == "auto", self.log.print
        self.lease = leases.acquire(store, mine, resumes=resumes, lacks=lambda head: self._lacks(store, head), say=say)
        if self.lease is None:
            return FINISHED
        # During the training the writer and the heartbeat repeat what failed: one call must not wait for minutes.
        self.lease.store = open_store(self.config.checkpoint, value=VALUE)
        self.lease.beat()
        every, keep, max_age = self.config.checkpoint_every, self.config.checkpoint_keep, self.config.checkpoint_max_age
        self.writer = Writer(self.lease, self.buffer, keep=keep, every=every, ranks=self.group.size, max_age=max_age)
        head = self.lease.head
        newest, since = head.checkpoint, head.since
        if newest is None:
            return None
        trained = files.Trained(self.subject, self.state.fields(), self.state.former)
        return files.newest_good(store, self.buffer, trained, newest=newest, first_generation=since, say=say)

    def _lacks(self, store: Store, head: Head) -> str:
        """Return what a finished run does not have. Raises CheckpointError for another training."""
        if head.end is not None and head.end.subject != completion.digest(self.subject):
            there = files.subject_of(store, head.checkpoint) if head.checkpoint else None
            difference = manifests.difference(there, self.subject) if there else None
            raise files.of_another(store, head.checkpoint or FILE, difference or "the run finished with other values")
        if head.end is not None:
            completion.require_same_data(self.config, self.subject, head.end)
        lacking = completion.what_lacks(self.config, self.subject, head.end, self._name(head))
        if head.end is not None and not lacking:
            self._tell_of_more(head.end.step, head.end.samples)
        return lacking

    def _name(self, head: Head) -> str:
        """Name what one generation has trained: no other has the same weights."""
        return f"{self.config.checkpoint}#{head.generation}"

    @property
    def name(self) -> str:
        """What results.json calls this run, by rank 0; "" without checkpoints."""
        return self._name(self.lease.head) if self.lease is not None else ""

    def _resume(self, found: files.Checkpoint | str | None) -> None:
        """Broadcast what rank 0 found, and resume from it."""
        told = (found.name, found.manifest, found.parts) if isinstance(found, files.Checkpoint) else found
        told = self.group.broadcast(told)
        if told is None:
            return
        if told == FINISHED:
            self.log.print(f"finished: {self.config.checkpoint} holds the end of this run; nothing is left to do")
            self.group.gather(None)
            raise FinishedError
        name, manifest, parts = told
        assert isinstance(manifest, Manifest)
        if self.group.shares_state:
            self._share(parts[-1].end)
        if self.group.shares_state or self.group.rank == 0:
            self.state.load(self.buffer.arrays(parts))
        if self.group.rank != 0:  # It saves nothing.
            self.buffer.release()
        self.position, self.history = manifest.position, manifest.history
        self.log.print(
            f"resumed from {name}: step {self.position.step}, {self.position.samples} samples, "
            f"on {self.group.size} ranks (before {manifest.ranks})"
        )
        self._tell_of_more(self.position.step, self.position.samples)

    def _tell_of_more(self, step: int, samples: int) -> None:
        """Say so where more steps are made than the values ask for."""
        if completion.steps_left(self.config, self.subject, step=step, samples=samples) < 0:
            self.log.print(
                f"trains no further: {completion.length_of(self.config)}, and step {step} ({samples} samples) is made "
                "already; the model is that step's"
            )

    def _share(self, size: int) -> None:
        """Fill each rank's buffer with rank 0's, piece by piece: no rank holds the state a second time for it."""
        self.buffer.reserve(size)
        for start in range(0, size, CHUNK):
            place = self.buffer.span(start, min(size, start + CHUNK))
            piece = self.group.broadcast(bytes(place) if self.group.rank == 0 else None)
            if self.group.rank != 0:
                place[:] = piece

    @property
    def asked(self) -> int:
        """What this rank has to say before a step; the ranks' largest is what made_step takes."""
        if self.lease is not None and self.lease.is_fenced:
            return stop_flag.FENCED
        if self.lease is not None and self.lease.is_asked_for:
            return self.request.reason or stop_flag.ANOTHER_JOB
        if self.writer is not None and self.writer.trouble.seconds > self.config.checkpoint_max_age:
            return self.request.reason or stop_flag.NO_CHECKPOINT
        return self.request.reason

    @property
    def is_due(self) -> bool:
        return self.writer is not None and self.writer.is_due()

    def made_step(self, samples: int, *, asked: int, may_save: bool = True) -> None:
        """Count a step on so many samples of all ranks, and save it where it is time.

        Raises StoppedError or FencedError where any rank was asked to stop.
        """
        self.position = self.position.after_step(
            samples,
            ranks=self.group.size,
            batch_size=self.config.batch_size,
            epoch_samples=self.subject.epoch_samples,
        )
        if asked == stop_flag.FENCED:
            by = self.lease.fenced_by if self.lease is not None else ""
            raise FencedError(by or f"{VALUE}: another job holds {self.config.checkpoint}, and rank 0 names it")
        if asked == stop_flag.NO_CHECKPOINT:
            raise UnavailableError(self._why_no_checkpoint())
        if asked:
            self._stop(asked)
        if self.writer is not None:
            if self.pace.made == 0:
                self._prepare()
            self.writer.seconds_left = self.pace.after_step()
            self._tell()
            if may_save and self.writer.is_due():
                self.state.wait()  # Or the copy would, and count the step's own time as what a checkpoint costs.
                self.writer.save(self._snapshot)

    def _prepare(self) -> None:
        """Make room for a copy of the state beside the training. After a step: some optimizers keep nothing before."""
        size = arrays.plan(self.state.fields())[-1].end
        threading.Thread(target=self.buffer.reserve, args=[size], daemon=True).start()

    def _why_no_checkpoint(self) -> str:
        """Say why the run ends here, to go on from its last checkpoint: what would be lost only grows."""
        for_long = f"checkpoint.maxAge: nothing could be saved for {self.config.checkpoint_max_age:.0f} s"
        if self.writer is None:
            return f"{for_long}; rank 0 says why"
        return f"{for_long} ({self.writer.trouble.reason})"

    def _snapshot(self) -> Snapshot:
        parts = arrays.plan(self.state.fields())
        self.state.copy(self.buffer.place(parts))
        return Snapshot(self.subject, self.position, self.group.size, list(self.history), parts)

    def _stop(self, asked: int) -> None:
        """Save where all ranks are, and end together."""
        self.watchdog.stop()
        if self.writer is not None and self.lease is not None:
            trouble = ""
            if self.writer.saved_samples != self.position.samples:
                trouble = self.writer.save_last(self._snapshot, self.position.samples)
            trouble = trouble or self._let_go()
            self._tell()
            self.log.print(
                f"stopped at step {self.position.step} ({self.position.samples} samples) after "
                f"{stop_flag.WORDS[asked]}; {f'not saved: {trouble}' if trouble else 'resumes there'}"
            )
        self.group.gather(None)
        raise StoppedError

    def _save_end(self, writer: Writer) -> None:
        """Save the last state: a run that is asked for more epochs later trains on from it."""
        writer.seconds_left = 0.0
        trouble = writer.save_last(self._snapshot, self.position.samples)
        if trouble:
            self._tell()
            self.log.print(f"checkpoint: the last state is not saved ({trouble})")

    def _let_go(self) -> str:
        assert self.lease is not None
        try:
            self.lease.end(STOPPED, max_age=self.config.checkpoint_max_age)
        except (FencedError, StorageError, TimeoutError) as error:
            return str(error)
        return ""

    def _tell(self) -> None:
        assert self.writer is not None
        while self.writer.lines:
            self.log.print(self.writer.lines.popleft())
        if word := self.writer.trouble.word():
            self.log.print(word)

    def finish(self) -> None:
        """Save the last state and mark the run as finished, once its outcome is written.

        By all ranks, before the last barrier. Raises FencedError, and UnavailableError where a write never returns.
        """
        if self.lease is None or self.writer is None:
            return
        if self.config.checkpoint_at_end:
            self._save_end(self.writer)
        self.writer.close()
        self._tell()
        begun, end = time.monotonic(), End.of(self.position, self.subject, self.config.data)
        while True:
            try:
                self.lease.end(FINISHED, end, max_age=self.config.checkpoint_max_age)
            except TimeoutError as error:
                raise UnavailableError(f"checkpoint.maxAge: the training is over, but {error}") from None
            except StorageError as error:
                if time.monotonic() - begun > SECONDS_TO_FINISH:
                    self.log.print(f"checkpoint: the end of the training is not marked ({error})")
                    return
                time.sleep(1)
            else:
                self.log.print(f"finished: {self.position.step} steps, {self.position.samples} samples")
                return
