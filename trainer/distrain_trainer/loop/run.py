"""Resume a training run, count and save its steps, stop it and finish it."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from distrain_trainer.checkpoint import arrays, completion, files, reader
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
from distrain_trainer.storage import Retry, Store, open_store

VALUE = "checkpoint.uri"
# Bytes per broadcast of the state. Each piece is pickled, which makes copies of it.
CHUNK = 4 * 1024**2
# Seconds for which marking the run as finished is retried if the store fails.
SECONDS_TO_FINISH = 60.0


class State(Protocol):
    """The state that a framework keeps between steps, as named arrays.

    The names of the model's arrays begin with `model.`. No state of random numbers is saved: each step's seed follows
    from the run's seed and the samples seen, which are in the manifest.
    """

    def fields(self) -> Fields:
        """Return the type and shape of each array. An optimizer may have no arrays before its first step."""

    def wait(self) -> None:
        """Wait until the last step's computations are complete."""

    def copy(self, into: Arrays) -> None:
        """Copy each array to the array of the same name in host memory."""

    def load(self, arrays: Arrays) -> None:
        """Load a saved state. The memory of `arrays` is overwritten by the next `copy`."""

    def former(self, content: bytes) -> Arrays:
        """Return the arrays of a checkpoint of format 1, which is a file in the framework's own format."""


@dataclass(frozen=True)
class ProcessGroup:
    """This rank, the number of ranks, and two collectives: broadcast from rank 0, and gather to all ranks.

    `shares_state` is false with parameter servers: only rank 0 loads and saves the state.
    """

    rank: int
    size: int
    broadcast: Callable[[Any], Any]
    gather: Callable[[Any], list[Any]]
    shares_state: bool = True


@dataclass
class StepTimer:
    """Time the steps, to estimate the remaining time."""

    steps: int = 0
    made: int = 0
    begun: float = 0.0

    def after_step(self) -> float:
        """Count a step. Return the estimated seconds for the remaining steps, infinity if unknown."""
        self.begun = self.begun or time.monotonic()
        self.made += 1
        passed = time.monotonic() - self.begun
        # The time starts after the first step, which also compiles.
        return (self.steps - self.made) * passed / (self.made - 1) if self.made > 1 else math.inf


@dataclass
class Run:
    """A training run. Without `--checkpoint` it only counts steps. Only rank 0 uses the store."""

    config: Config
    group: ProcessGroup
    log: Log
    state: State
    subject: Subject
    start: Fields
    position: Position = field(default_factory=Position)
    history: list[LoggedStep] = field(default_factory=list)
    watchdog: Watchdog = field(default_factory=Watchdog)
    request: stop_flag.StopRequest = field(default_factory=stop_flag.StopRequest)
    writer: Writer | None = None
    lease: Lease | None = None
    buffer: Buffer = field(default_factory=Buffer)
    timer: StepTimer = field(default_factory=StepTimer)
    # How many steps in a row, up to the last one, were left out because the loss or a gradient was not finite.
    bad_steps: int = 0

    @classmethod
    def begin(cls, config: Config, dataset: Dataset, state: State, group: ProcessGroup, log: Log) -> Run:
        """Acquire the run, and load its newest complete checkpoint. Called by all ranks after they have connected.

        Raises FinishedError if nothing is left to do, FencedError, StorageError, StoppedError, and CheckpointError if
        the checkpoint is of another training.
        """
        samples = None if config.is_synthetic else len(dataset.train)
        fields = state.fields()
        subject = Subject(config.framework, config.model, config.optimizer, config.seed, samples, arrays.shapes(fields))
        run = cls(config, group, log, state, subject, fields)
        if config.checkpoint:
            run.request.listen()
            run.watchdog.beacon = beacon = Beacon()
            told = group.gather((os.environ.get("DISTRAIN_POD_UID", ""), beacon.endpoint))
            pods, endpoints = ([*each] for each in zip(*told, strict=True))
            beacon.listen(endpoints)
            run._resume(run._acquire(pods) if group.rank == 0 else None)
            steps = count_steps(config, dataset, ranks=group.size, start=run.position)
            run.timer = StepTimer(steps - run.position.step)
        return run

    def _acquire(self, pods: list[str]) -> files.Checkpoint | str | None:
        """By rank 0: acquire the lease. Return the checkpoint to resume from, None if there is none, or FINISHED."""
        store = open_store(self.config.checkpoint, value=VALUE, retry=Retry(heeds_sigterm=True))
        mine = Holder(os.environ.get("DISTRAIN_JOB", ""), tuple(sorted({pod for pod in pods if pod})))
        resumes, say = self.config.resume == "auto", self.log.print
        self.lease = leases.acquire(store, mine, resumes=resumes, lacks=lambda head: self._lacks(store, head), say=say)
        if self.lease is None:
            return FINISHED
        # During the training use a store without retries: the writer and the heartbeat themselves retry.
        self.lease.store = open_store(self.config.checkpoint, value=VALUE)
        self.lease.beat()
        every, keep, max_age = self.config.checkpoint_every, self.config.checkpoint_keep, self.config.checkpoint_max_age
        self.writer = Writer(self.lease, self.buffer, keep=keep, every=every, ranks=self.group.size, max_age=max_age)
        head = self.lease.head
        newest, since = head.checkpoint, head.since
        if newest is None:
            return None
        trained = reader.Trained(self.subject, self.state.fields(), self.state.former)
        return reader.newest_good(store, self.buffer, trained, newest=newest, first_generation=since, say=say)

    def _lacks(self, store: Store, head: Head) -> str:
        """Return what the values ask for and a finished run lacks. Raises CheckpointError for another training."""
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
        """Return a name for the weights that one generation has trained."""
        return f"{self.config.checkpoint}#{head.generation}"

    @property
    def name(self) -> str:
        """The run's name in results.json. It is "" without checkpoints, and on all ranks but 0."""
        return self._name(self.lease.head) if self.lease is not None else ""

    def _resume(self, found: files.Checkpoint | str | None) -> None:
        """Broadcast what rank 0 has found, and resume from it on all ranks.

        Raises FinishedError if the run is finished.
        """
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
        if self.group.rank != 0:  # Only rank 0 saves.
            self.buffer.release()
        self.position, self.history = manifest.position, manifest.history
        self.log.print(
            f"resumed from {name}: step {self.position.step}, {self.position.samples} samples, "
            f"on {self.group.size} ranks (before {manifest.ranks})"
        )
        self._tell_of_more(self.position.step, self.position.samples)

    def _tell_of_more(self, step: int, samples: int) -> None:
        """Log a line if the run has more steps than the values ask for."""
        if completion.steps_left(self.config, self.subject, step=step, samples=samples) < 0:
            self.log.print(
                f"trains no further: {completion.length_of(self.config)}, and step {step} ({samples} samples) is made "
                "already; the model is that step's"
            )

    def _share(self, size: int) -> None:
        """Copy rank 0's buffer to all ranks, piece by piece, so that no rank needs memory for a second copy."""
        self.buffer.reserve(size)
        for start in range(0, size, CHUNK):
            place = self.buffer.span(start, min(size, start + CHUNK))
            piece = self.group.broadcast(bytes(place) if self.group.rank == 0 else None)
            if self.group.rank != 0:
                place[:] = piece

    @property
    def asked(self) -> int:
        """This rank's request to stop, a number of stop_flag. The program passes the ranks' maximum to made_step."""
        if self.lease is not None and self.lease.is_fenced:
            return stop_flag.FENCED
        if self.lease is not None and self.lease.is_asked_for:
            return self.request.reason or stop_flag.ANOTHER_JOB
        if self.writer is not None and self.writer.outage.seconds > self.config.checkpoint_max_age:
            return self.request.reason or stop_flag.NO_CHECKPOINT
        return self.request.reason

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint is due. None is due after a bad step, as the weights may be the cause.

        It would also push out the checkpoints from before the weights broke.
        """
        return self.writer is not None and self.writer.is_due() and not self.bad_steps

    def made_step(self, samples: int, *, asked: int, may_save: bool = True) -> None:
        """Count a step on `samples` samples of all ranks, and save a checkpoint if one is due.

        `asked` is the largest `asked` of all ranks. Raises StoppedError, FencedError or UnavailableError if it is set.
        """
        self.position = self.position.after_step(
            samples,
            ranks=self.group.size,
            batch_size=self.config.batch_size,
            epoch_samples=self.subject.epoch_samples,
        )
        self._heed(asked)
        if self.writer is not None:
            if self.timer.made == 0:
                self._prepare()
            self.writer.seconds_left = self.timer.after_step()
            self._tell()
            # This step's loss shows whether the weights after the step before, which may be held, are good.
            self.writer.settle(is_good=not self.bad_steps)
            if may_save and self.is_due:
                self.state.wait()  # Otherwise the copy would wait, and the step's time would count as checkpoint cost.
                self.writer.save(self._snapshot, holds=True)

    def heed_stop(self, *others: int) -> None:
        """Stop if any rank was asked to. Called by all ranks after the evaluation, before the outcome is written.

        `others` are the requests of processes outside the group. A failing store is no reason to stop any more. Raises
        StoppedError or FencedError.
        """
        if self.config.checkpoint:
            asked = self.asked
            mine = stop_flag.NOTHING if asked == stop_flag.NO_CHECKPOINT else asked
            self._heed(max([*self.group.gather(mine), *others]))

    def _prepare(self) -> None:
        """Allocate the buffer in a thread. Called after the first step, as some optimizers have no state before it."""
        size = self._plan()[-1].end
        threading.Thread(target=self.buffer.reserve, args=[size], daemon=True).start()

    def _why_no_checkpoint(self) -> str:
        """Return the message of a run that ends because nothing was saved for checkpoint.maxAge."""
        for_long = f"checkpoint.maxAge: nothing could be saved for {self.config.checkpoint_max_age:.0f} s"
        if self.writer is None:
            return f"{for_long}; rank 0 says why"
        return f"{for_long} ({self.writer.outage.reason})"

    def _plan(self) -> list[arrays.Part]:
        """Lay out the state. Raises ArgumentError if a step has added, removed or changed arrays of the model."""
        fields = self.state.fields()
        arrays.require_same_model(fields, self.start)
        return arrays.plan(fields)

    def _snapshot(self) -> Snapshot:
        parts = self._plan()
        self.state.copy(self.buffer.place(parts))
        return Snapshot(self.subject, self.position, self.group.size, list(self.history), parts)

    def _heed(self, asked: int) -> None:
        """Stop for the largest `asked` of all ranks. Do nothing if it is 0."""
        if asked == stop_flag.FENCED:
            by = self.lease.fenced_by if self.lease is not None else ""
            raise FencedError(by or f"{VALUE}: another job holds {self.config.checkpoint}, and rank 0 names it")
        if asked == stop_flag.NO_CHECKPOINT:
            raise UnavailableError(self._why_no_checkpoint())
        if asked:
            self._stop(asked)

    def _stop(self, asked: int) -> None:
        """Save a checkpoint, release the lease, and raise StoppedError on all ranks together.

        After a bad step save none: the newest checkpoint stays the one from before the bad steps.
        """
        self.watchdog.stop()
        if self.writer is not None and self.lease is not None:
            failure = self._close(self.writer) if self.bad_steps else self._save_last(self.writer)
            failure = failure or self._let_go()
            self._tell()
            self.log.print(
                f"stopped at step {self.position.step} ({self.position.samples} samples) after "
                f"{stop_flag.WORDS[asked]}; {f'not saved: {failure}' if failure else self._where_it_resumes()}"
            )
        self.group.gather(None)
        raise StoppedError

    def _where_it_resumes(self) -> str:
        if not self.bad_steps:
            return "resumes there"
        newest = self.lease.head.checkpoint if self.lease is not None else None
        resumes = f"resumes from {newest}" if newest else "begins anew"
        return f"not saved, as the last steps ({self.bad_steps}) are left out; {resumes}"

    def _close(self, writer: Writer) -> str:
        """Wait for the current write. Return "", or why it does not end."""
        try:
            writer.close()
        except UnavailableError as error:
            return str(error)
        return ""

    def save_end(self) -> None:
        """Save the last state if checkpoint_at_end is set. Called by all ranks after the last step.

        A process that is killed in the evaluation then loses no step, and a later start with more epochs trains on.
        """
        if self.writer is None or not self.config.checkpoint_at_end:
            return
        self.writer.seconds_left = 0.0
        failure = self._save_last(self.writer)
        self._tell()
        if failure:
            self.log.print(f"checkpoint: the last state is not saved ({failure})")

    def _save_last(self, writer: Writer) -> str:
        self.state.wait()
        return writer.save_last(self._snapshot, self.position.samples)

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
        if line := self.writer.outage.line():
            self.log.print(line)

    def finish(self) -> None:
        """Mark the run as finished. First save the last state if checkpoint_at_end is set and it is not saved yet.

        Called by all ranks after the outcome is written, before the last barrier. Raises FencedError, and
        UnavailableError if a write takes longer than checkpoint.maxAge.
        """
        if self.lease is None or self.writer is None:
            return
        self.save_end()
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
