"""Resume a training run, count and save its steps, stop it and finish it."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import time
from dataclasses import dataclass, field

from distrain_trainer.checkpoint import arrays, files, finished, reader
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint.arrays import Buffer, Fields
from distrain_trainer.checkpoint.head import FINISHED, STOPPED, End, Holder
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.manifest import Subject
from distrain_trainer.checkpoint.writer import Snapshot, Writer
from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, Position, count_steps
from distrain_trainer.errors import FencedError, FinishedError, StoppedError, StorageError, UnavailableError
from distrain_trainer.log import Log
from distrain_trainer.loop import measures, stop_flag
from distrain_trainer.loop.beacon import Beacon
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.state import State
from distrain_trainer.loop.watchdog import Watchdog
from distrain_trainer.metrics import Figures
from distrain_trainer.record import EventFiles, Record
from distrain_trainer.results import Evaluation, LoggedStep
from distrain_trainer.storage import Retry, open_store

VALUE = "checkpoint.uri"
# Seconds for which marking the run as finished is retried if the store fails.
SECONDS_TO_FINISH = 60.0


@dataclass
class Run:
    """A training run. Without `--checkpoint` it only counts steps.

    Only rank 0 has a writer, which holds the lease and writes the checkpoints.
    """

    config: Config
    group: ProcessGroup
    log: Log
    state: State
    subject: Subject
    start: Fields
    position: Position = field(default_factory=Position)
    history: list[LoggedStep] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    watchdog: Watchdog = field(default_factory=Watchdog)
    request: stop_flag.StopRequest = field(default_factory=stop_flag.StopRequest)
    writer: Writer | None = None
    buffer: Buffer = field(default_factory=Buffer)
    # The steps from the beginning of the run to its end, and those made before this start.
    steps: int = 0
    resumed_step: int = 0
    resumed_from: str | None = None
    # The time after the first step of this start. That step also compiles, so it is not timed.
    begun: float | None = None
    # How many steps in a row, up to the last one, were left out because the loss or a gradient was not finite.
    bad_steps: int = 0
    record: Record = field(default_factory=Record)
    metrics: Figures = field(default_factory=Figures)

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
        run.steps = count_steps(config, dataset, ranks=group.size, start=run.position)
        run.resumed_step = run.position.step
        if group.rank == 0 and (uri := config.output or config.checkpoint):
            value = "output.uri" if config.output else VALUE
            event_files = EventFiles(uri, value, lease=run.lease, say=log.print) if config.tensorboard else None
            run.record = Record(uri, value, lease=run.lease, say=log.print, event_files=event_files)
            run._record_start()
        measures.serve(run)
        return run

    def _record_start(self) -> None:
        config, head = self.config, self.lease.head if self.lease is not None else None
        self.record.add(
            "start",
            framework=config.framework,
            model=config.model,
            world_size=self.group.size,
            job=os.environ.get("DISTRAIN_JOB"),
            generation=head.generation if head else None,
            step=self.position.step,
            samples=self.position.samples,
            checkpoint=self.resumed_from,
            steps=max(self.steps, self.position.step),
            epochs=config.epochs,
            epoch_samples=self.subject.epoch_samples,
            parameter_bytes=self.state.trained_bytes(),
            values=dataclasses.asdict(config),
        )

    def _acquire(self, pods: list[str]) -> files.Checkpoint | str | None:
        """By rank 0: acquire the lease. Return the checkpoint to resume from, None if there is none, or FINISHED."""
        config, say = self.config, self.log.print
        store = open_store(config.checkpoint, value=VALUE, retry=Retry(heeds_sigterm=True))
        mine = Holder(os.environ.get("DISTRAIN_JOB", ""), tuple(sorted({pod for pod in pods if pod})))
        lease = leases.acquire(
            store,
            mine,
            resumes=config.resume == "auto",
            lacks=lambda head: finished.what_lacks(config, self.subject, store, head, say),
            say=say,
        )
        if lease is None:
            return FINISHED
        # During the training use a store without retries: the writer and the heartbeat themselves retry.
        lease.store = open_store(config.checkpoint, value=VALUE)
        lease.beat()
        self.writer = Writer(lease, self.buffer, config, ranks=self.group.size)
        newest, since = lease.head.checkpoint, lease.head.since
        if newest is None:
            return None
        trained = reader.Trained(self.subject, self.state.fields(), self.state.later_fields(), self.state.former)
        return reader.newest_good(store, self.buffer, trained, newest=newest, first_generation=since, say=say)

    def _resume(self, found: files.Checkpoint | str | None) -> None:
        """Broadcast what rank 0 has found, and resume from it on all ranks.

        Raises FinishedError if the run is finished.
        """
        found = self.group.broadcast(found)
        if found == FINISHED:
            self.log.print(f"finished: {self.config.checkpoint} holds the end of this run; nothing is left to do")
            self.group.gather(None)
            raise FinishedError
        if isinstance(found, files.Checkpoint):
            self._load(found)

    def _load(self, found: files.Checkpoint) -> None:
        if self.group.shares_state:
            self.group.share(self.buffer, found.parts[-1].end)
        if self.group.shares_state or self.group.rank == 0:
            self.state.load(self.buffer.arrays(found.parts))
        if self.group.rank != 0:  # Only rank 0 saves.
            self.buffer.release()
        self.position, self.history = found.manifest.position, found.manifest.history
        self.evaluations = found.manifest.evaluations
        self.resumed_from = found.name
        self.log.print(
            f"resumed from {found.name}: step {self.position.step}, {self.position.samples} samples, "
            f"on {self.group.size} ranks (before {found.manifest.ranks})"
        )
        finished.say_if_longer(self.config, self.subject, self.position, self.log.print)

    @property
    def lease(self) -> Lease | None:
        return self.writer.lease if self.writer is not None else None

    @property
    def name(self) -> str:
        """The run's name in results.json. It is "" without checkpoints, and on all ranks but 0."""
        return finished.name_of_weights(self.config, self.lease.head) if self.lease is not None else ""

    @property
    def asked(self) -> int:
        """This rank's request to stop, a number of stop_flag. The program passes the ranks' maximum to end_step."""
        if self.writer is None:
            return self.request.reason
        lease, outage = self.writer.lease, self.writer.outage
        if lease.is_fenced:
            return stop_flag.FENCED
        if self.request.reason or lease.is_asked_for:
            return self.request.reason or stop_flag.ANOTHER_JOB
        return stop_flag.NO_CHECKPOINT if outage.seconds > self.config.checkpoint_max_age else stop_flag.NOTHING

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint is due. None is due after a bad step, as the weights may be the cause.

        It would also push out the checkpoints from before the weights broke.
        """
        return self.writer is not None and self.writer.is_due() and not self.bad_steps

    def made_step(self, samples: int, *, asked: int, may_save: bool = True) -> None:
        """Count a step on `samples` samples of all ranks, and save a checkpoint if one is due; see `end_step`."""
        self.begin_step(samples)
        self.end_step(self.position.step, asked=asked, may_save=may_save)

    def begin_step(self, samples: int) -> None:
        """Count a step on `samples` samples of all ranks. The state is now the one after it, once it is computed."""
        self.position = self.position.after_step(
            samples,
            ranks=self.group.size,
            batch_size=self.config.batch_size,
            epoch_samples=self.subject.epoch_samples,
        )

    def end_step(self, step: int, *, asked: int, may_save: bool = True) -> None:
        """After the outcome of a step is known, save a checkpoint if one is due, after the last step that has begun.

        `step` is the number of steps whose outcome is known, `asked` the largest `asked` of all ranks. If it is set, no
        more steps may have begun. Raises StoppedError, FencedError or UnavailableError if it is set.
        """
        self._heed(asked)
        if self.writer is not None:
            if self.begun is None:
                self.begun = time.monotonic()
                self._prepare()
            self.writer.seconds_left = self._seconds_left(self.begun)
            self._tell(self.writer)
            # A step's loss shows whether the weights after the step before, which may be held, are good.
            self.writer.settle(step, is_good=not self.bad_steps)
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

    def _heed(self, asked: int) -> None:
        """Stop for the largest `asked` of all ranks. Do nothing if it is 0."""
        if asked == stop_flag.FENCED:
            by = self.lease.fenced_by if self.lease is not None else ""
            raise FencedError(by or f"{VALUE}: another job holds {self.config.checkpoint}, and rank 0 names it")
        if asked == stop_flag.NO_CHECKPOINT:
            why = f" ({self.writer.outage.reason})" if self.writer is not None else "; rank 0 says why"
            raise UnavailableError(
                f"checkpoint.maxAge: nothing could be saved for {self.config.checkpoint_max_age:.0f} s{why}"
            )
        if asked:
            self._stop(asked)

    def _stop(self, asked: int) -> None:
        """Save a checkpoint, release the lease, and raise StoppedError on all ranks together."""
        self.watchdog.stop()
        if self.writer is not None:
            failure = self._leave(self.writer, asked)
            self._tell(self.writer)
            told = f"not saved: {failure}" if failure else self._where_it_resumes(self.writer.lease)
            self.log.print(
                f"stopped at step {self.position.step} ({self.position.samples} samples) after "
                f"{stop_flag.WORDS[asked]}; {told}"
            )
        self._record_stop(asked)
        self.group.gather(None)
        raise StoppedError

    def _record_stop(self, asked: int) -> None:
        self.record.end(
            STOPPED,
            exit_code=StoppedError.exit_code,
            reason=stop_flag.WORDS[asked],
            step=self.position.step,
            samples=self.position.samples,
        )

    def _leave(self, writer: Writer, asked: int) -> str:
        """Save a checkpoint, and release the lease. Return "", or the reason why one of the two fails.

        After a bad step save none: the newest checkpoint stays the one from before the bad steps.
        """
        try:
            if self.bad_steps:
                writer.close()
            elif failure := self._save_last(writer):
                return failure
            self._tell(writer)
            # Before the lease is released: the next holder would take this process for killed.
            self._record_stop(asked)
            writer.lease.end(STOPPED, max_age=self.config.checkpoint_max_age)
        except (FencedError, StorageError, TimeoutError) as error:
            return str(error)
        return ""

    def _where_it_resumes(self, lease: Lease) -> str:
        if not self.bad_steps:
            return "resumes there"
        newest = lease.head.checkpoint
        resumes = f"resumes from {newest}" if newest else "begins anew"
        return f"not saved, as the last steps ({self.bad_steps}) are left out; {resumes}"

    def save_end(self) -> None:
        """Save the last state if checkpoint_at_end is set. Called by all ranks after the last step.

        A process that is killed in the evaluation then loses no step, and a later start with more epochs trains on.
        """
        if self.writer is None or not self.config.checkpoint_at_end:
            return
        self.writer.seconds_left = 0.0
        failure = self._save_last(self.writer)
        self._tell(self.writer)
        if failure:
            self.log.print(f"checkpoint: the last state is not saved ({failure})")

    def finish(self) -> None:
        """Mark the run as finished. First save the last state if checkpoint_at_end is set and it is not saved yet.

        Called by all ranks after the outcome is written, before the last barrier. Raises FencedError, and
        UnavailableError if a write takes longer than checkpoint.maxAge.
        """
        if self.writer is None:
            return
        self.save_end()
        self.writer.close()
        self._tell(self.writer)
        begun, end = time.monotonic(), End.of(self.position, self.subject, self.config.data)
        while True:
            try:
                self.writer.lease.end(FINISHED, end, max_age=self.config.checkpoint_max_age)
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

    def _seconds_left(self, begun: float) -> float:
        """Estimate the seconds for the remaining steps, infinity if unknown."""
        timed = self.position.step - self.resumed_step - 1
        return (self.steps - self.position.step) * (time.monotonic() - begun) / timed if timed > 0 else math.inf

    def _prepare(self) -> None:
        """Allocate the buffer in a thread. Called after the first step, as some optimizers have no state before it."""
        size = self._plan()[-1].end
        threading.Thread(target=self.buffer.reserve, args=[size], daemon=True).start()

    def _plan(self) -> list[arrays.Part]:
        """Lay out the state. Raises ArgumentError if a step has added, removed or changed arrays of the model."""
        fields = self.state.fields()
        arrays.require_same_model(fields, self.start)
        return arrays.plan(fields)

    def _snapshot(self) -> Snapshot:
        parts = self._plan()
        self.state.copy(self.buffer.place(parts))
        told = (list(self.history), parts, list(self.evaluations))
        return Snapshot(self.subject, self.position, self.group.size, *told)

    def _save_last(self, writer: Writer) -> str:
        self.state.wait()
        return writer.save_last(self._snapshot, self.position.samples)

    def _tell(self, writer: Writer) -> None:
        while writer.lines:
            self.log.print(writer.lines.popleft())
        self.metrics.set(checkpoint_stall_seconds=writer.stalled)
        while writer.saved:
            saved = writer.saved.popleft()
            self.record.add("checkpoint", **saved)
            self.metrics.saved(write_seconds=saved["write_seconds"], unix_seconds=time.time())
        if line := writer.outage.line():
            self.log.print(line)
