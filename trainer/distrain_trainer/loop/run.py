"""Resume a training run, count and save its steps, and stop or finish it."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass, field

from distrain_trainer import schedule
from distrain_trainer.checkpoint import arrays, finished
from distrain_trainer.checkpoint.arrays import Fields
from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.head import FINISHED, STOPPED, End
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.manifest import Subject
from distrain_trainer.checkpoint.writer import Writer
from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, Position, count_steps
from distrain_trainer.errors import FencedError, StoppedError, StorageError, UnavailableError
from distrain_trainer.log import Log
from distrain_trainer.loop import measures, resume, saving, stop_flag
from distrain_trainer.loop.beacon import Beacon
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.resume import VALUE
from distrain_trainer.loop.state import State
from distrain_trainer.loop.watchdog import Watchdog
from distrain_trainer.metrics import Figures
from distrain_trainer.record import EventFiles, Record
from distrain_trainer.results import Evaluation, LoggedStep

# If the store fails when the run is marked as finished, retry for SECONDS_TO_FINISH.
SECONDS_TO_FINISH = 60.0


@dataclass
class Run:
    """A training run. Without `--checkpoint`, a run counts its steps, but saves and resumes nothing.

    If the ranks save together, each rank has a writer for its share of a checkpoint's files. Otherwise only rank 0 has
    a writer. Rank 0's writer holds the lease and completes the checkpoints.
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
    saves_together: bool = False
    # The number of steps that had begun when the ranks took their last snapshots together.
    taken_step: int = 0
    # The total number of steps of the run, and the number of steps that earlier starts have made.
    steps: int = 0
    resumed_step: int = 0
    resumed_from: str | None = None
    # The time at the end of this start's first step. The first step also compiles, so it is not timed.
    begun: float | None = None
    # The number of steps since the last good step. They were left out because the loss or a gradient was not finite.
    bad_steps: int = 0
    record: Record = field(default_factory=Record)
    metrics: Figures = field(default_factory=Figures)

    @classmethod
    def begin(cls, config: Config, dataset: Dataset, state: State, group: ProcessGroup, log: Log) -> Run:
        """Take the lease on the run, and load the run's newest complete checkpoint.

        Called by all ranks after they have connected.

        Raises FinishedError if nothing is left to do, CheckpointError if the checkpoint does not fit this run, and
        FencedError, StorageError and StoppedError.
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
            resume.resume(run, pods)
        run.steps = count_steps(config, dataset, ranks=group.size, start=run.position)
        run.resumed_step = run.position.step
        for line in schedule.remarks(config, run.steps):
            log.print(line)
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

    @property
    def lease(self) -> Lease | None:
        return self.writer.lease if self.writer is not None else None

    @property
    def name(self) -> str:
        """The run's name in results.json. Without checkpoints, the name is ""."""
        return finished.name_of_weights(self.config, self.lease.head) if self.lease is not None else ""

    @property
    def asked(self) -> int:
        """What this rank asks all ranks to do (nothing, save or stop), as one of the numbers in stop_flag.

        A stronger request has a higher number. The training program passes the highest number of any rank to
        `end_step`.
        """
        if self.writer is None:
            return self.request.reason
        lease, outage = self.writer.lease, self.writer.outage
        if lease.is_fenced:
            return stop_flag.FENCED
        if self.request.reason or lease.is_asked_for:
            return self.request.reason or stop_flag.ANOTHER_JOB
        if outage.seconds > self.config.checkpoint_max_age:
            return stop_flag.NO_CHECKPOINT
        if not self.saves_together:
            return stop_flag.NOTHING
        if self.group.rank:
            return stop_flag.BUSY if self.writer.has_unsaved else stop_flag.NOTHING
        return stop_flag.SAVE if self.is_due else stop_flag.NOTHING

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint is due now.

        After a bad step no checkpoint is due, because the weights may already have been bad before the step.

        Checkpoints with bad weights would also replace the good checkpoints.
        """
        return self.writer is not None and self.writer.is_due() and not self.bad_steps

    def made_step(self, samples: int, *, asked: int, may_save: bool = True) -> None:
        """Count a step in which all ranks used `samples` samples. If a checkpoint is due, save it; see `end_step`."""
        self.begin_step(samples)
        self.end_step(self.position.step, asked=asked, may_save=may_save)

    def begin_step(self, samples: int) -> None:
        """Count a step in which all ranks together used `samples` samples.

        Once the step is computed, `state` is the state after this step.
        """
        self.position = self.position.after_step(
            samples,
            ranks=self.group.size,
            batch_size=self.config.batch_size,
            epoch_samples=self.subject.epoch_samples,
        )

    def end_step(self, step: int, *, asked: int, may_save: bool = True) -> None:
        """Called when the outcome of a step is known.

        If a checkpoint is due, save the state after the last step that has begun. `step` is the number of steps whose
        outcome is known. `asked` is the strongest request of any rank: nothing, save or stop, as a number in stop_flag.
        If `asked` is a reason to stop, this raises StoppedError, FencedError or UnavailableError. Pass a reason to stop
        only after the outcomes of all begun steps are known.
        """
        self._heed(asked)
        if self.writer is not None:
            saving.end_step(self, self.writer, step, asked=asked, may_save=may_save)

    def heed_stop(self, *others: int) -> None:
        """Stop if any rank was asked to stop.

        Called by all ranks after the evaluation and before the outcome is written. `others` are the requests of
        processes outside the group, such as parameter servers. A store that fails is no reason to stop any more,
        because the training is over. Raises StoppedError or FencedError.
        """
        if self.config.checkpoint:
            asked = self.asked
            mine = stop_flag.NOTHING if asked == stop_flag.NO_CHECKPOINT else asked
            self._heed(max([*self.group.gather(mine), *others]))

    def _heed(self, asked: int) -> None:
        """Stop the run if `asked` is a reason to stop.

        `asked` is the strongest request of any rank: nothing, save or stop, as a number in stop_flag.
        """
        if asked == stop_flag.FENCED:
            by = self.lease.fenced_by if self.lease is not None else ""
            raise FencedError(by or f"{VALUE}: another job uses {self.config.checkpoint} now; see rank 0's log")
        if asked == stop_flag.NO_CHECKPOINT:
            reason = self.writer.outage.reason if self.writer is not None else ""
            why = f" ({reason})" if reason else "; another rank's log says why"
            raise UnavailableError(
                f"checkpoint.maxAge: nothing could be saved for {self.config.checkpoint_max_age:.0f} s{why}"
            )
        if asked > stop_flag.BUSY:
            self._stop(asked)

    def _stop(self, asked: int) -> None:
        """Save a checkpoint, release the lease, and raise StoppedError on all ranks together."""
        self.watchdog.stop()
        if self.writer is not None:
            failure = self._leave(self.writer, asked)
            saving.tell(self, self.writer)
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
        """Save a checkpoint, and release the lease.

        Return "" on success, or the reason why saving or releasing has failed. After a bad step, save no checkpoint, so
        that the newest checkpoint is one from before the bad step. Only rank 0 releases the lease; the other ranks have
        copies of it.
        """
        try:
            if saving.is_bad(self):
                writer.close()
            elif failure := saving.save_last(self, writer):
                return failure
            if self.group.rank:
                return ""
            saving.tell(self, writer)
            # Record the stop before the lease is released, because otherwise the next holder would assume that this
            # process was killed.
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
        finding = f"the loss or a gradient of the last steps ({self.bad_steps}) is not finite"
        return f"not saved, because {finding}; {resumes}"

    def save_end(self) -> None:
        """If checkpoint_at_end is set, save the last state. Called by all ranks after the last step.

        So no step is lost if a process is killed during the evaluation. A later start with more epochs continues from
        this state.
        """
        if self.writer is None or not self.config.checkpoint_at_end:
            return
        self.writer.seconds_left = 0.0
        failure = saving.save_last(self, self.writer)
        saving.tell(self, self.writer)
        if failure:
            self.log.print(f"checkpoint: the last state is not saved ({failure})")

    def finish(self) -> None:
        """Mark the run as finished. If checkpoint_at_end is set, first save the last state unless it is saved already.

        Called by all ranks after the outcome is written and before the last barrier. Raises FencedError, and
        UnavailableError if a write takes longer than checkpoint.maxAge.
        """
        if self.writer is None:
            return
        self.save_end()
        self.writer.close()
        saving.tell(self, self.writer)
        if self.group.rank == 0:
            self._mark_end(self.writer.lease)

    def _mark_end(self, lease: Lease) -> None:
        """Mark the run as finished in HEAD."""
        begun, end = time.monotonic(), End.of(self.position, self.subject, self.config.data)
        while True:
            try:
                lease.end(FINISHED, end, max_age=self.config.checkpoint_max_age)
            except TimeoutError as error:
                raise UnavailableError(f"checkpoint.maxAge: the training is over, but {error}") from None
            except StorageError as error:
                if time.monotonic() - begun > SECONDS_TO_FINISH:
                    self.log.print(f"checkpoint: the run could not be marked as finished ({error})")
                    return
                time.sleep(1)
            else:
                self.log.print(f"finished: {self.position.step} steps, {self.position.samples} samples")
                return
