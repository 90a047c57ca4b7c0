"""Log the steps of a training, and record their figures."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from distrain_trainer import results
from distrain_trainer.checkpoint.files import place
from distrain_trainer.config import Config
from distrain_trainer.errors import DivergedError
from distrain_trainer.log import Log
from distrain_trainer.loop.images_per_second import HEADER, Speed, step_line, total_lines, untimed_steps
from distrain_trainer.loop.progress_line import ProgressLine, Throughput, finite
from distrain_trainer.loop.run import Run
from distrain_trainer.results import LoggedStep, Results


class Counted(Protocol):
    """The sample counts of a step: a Batch, or a worker's report of one."""

    @property
    def samples(self) -> int: ...

    @property
    def global_samples(self) -> int: ...


@dataclass
class Progress:
    """Time the steps of one rank. Log the first timed step, every log_every-th step after it, and the last step."""

    log: Log
    steps: int
    config: Config
    speed: Speed
    resumed_step: int
    run: Run
    throughput: Throughput = field(default_factory=Throughput)

    @classmethod
    def start(cls, config: Config, steps: int, log: Log, run: Run) -> Progress:
        """Start at the run's position. `steps` counts from the beginning of the run."""
        log.print(HEADER)
        made = run.position.step
        speed = Speed(made + untimed_steps(steps - made), made)
        progress = cls(log, max(steps, made), config, speed, made, run)
        progress.throughput.start(made, run.position.samples)
        return progress

    def add(self, batch: Counted, *, loss: float, seconds: float, mean: Callable[[float], float]) -> None:
        """Record the step just made, which took `seconds`, and log it if it is due.

        `mean` averages a number over the ranks; all ranks call it at the same steps. A loss that is not finite marks a
        step that was left out. Raises DivergedError after more than config.max_bad_steps such steps in a row, and if
        the last step of the run is one.
        """
        self.speed.add(samples=batch.samples, global_samples=batch.global_samples, seconds=seconds)
        samples = self.run.position.samples + batch.global_samples
        if self.speed.steps == self.speed.untimed:
            self.throughput.start(self.speed.steps, samples)
        self.run.watchdog.made_step(seconds)
        if self.resumed_step and self.speed.steps == self.resumed_step + 1:
            self.log.print(f"went on with step {self.speed.steps}, {seconds_since_start():.1f} s after this start")
        if self.speed.steps == self.steps:
            self.run.watchdog.stop()
        self._judge(loss)
        if self._is_logged():
            mean_loss = mean(loss)
            self.log.print(step_line(self.speed, mean_loss))
            self.throughput.add(self.speed.steps, samples)
            self.log.print(self._progress_line(mean_loss).text())
            if math.isfinite(mean_loss):
                results.add(self.run.history, LoggedStep(self.speed.steps, self.speed.rate, mean_loss))

    def _judge(self, loss: float) -> None:
        """Count the consecutive steps that were left out because the loss or a gradient was not finite."""
        if math.isfinite(loss):
            self.run.bad_steps = 0
            return
        self.run.bad_steps += 1
        step, most, bad_steps = self.speed.steps, self.config.max_bad_steps, self.run.bad_steps
        cure = f"the loss is {loss} at step {step}; lower trainer.learningRate or lengthen trainer.warmup"
        if bad_steps > most:
            raise DivergedError(
                f"trainer.learningRate: {cure} ({bad_steps} such steps in a row, and trainer.maxBadSteps is {most})"
            )
        self.log.print(
            f"step {step} is left out: its loss or a gradient is no finite number ({bad_steps} in a row, "
            f"trainer.maxBadSteps is {most})"
        )
        if step == self.steps:
            raise DivergedError(f"trainer.learningRate: {cure} (the run's last {bad_steps} of {step} steps)")

    def _progress_line(self, loss: float) -> ProgressLine:
        run, samples = self.run, self.throughput.lines[-1][2]
        saved = run.lease.head.checkpoint if run.lease is not None else None
        return ProgressLine(
            step=self.speed.steps,
            steps=self.steps,
            epoch=round(samples / run.subject.epoch_samples, 4) if run.subject.epoch_samples else None,
            epochs=self.config.epochs,
            samples=samples,
            images_per_second=round(self.throughput.images_per_second, 2),
            images_per_second_mean=round(self.speed.total, 2),
            loss=finite(loss),
            eta_seconds=self.throughput.seconds_to(self.steps),
            checkpoint=saved,
            checkpoint_samples=place(saved)[1] if saved else None,
            world_size=run.group.size,
            unix_seconds=round(time.time()),
        )

    def end(self, config: Config, *, world_size: int, accuracy: float | None) -> Results:
        """Print the totals of the run, and return its results."""
        has_trained = self.speed.steps > self.resumed_step
        for line in total_lines(self.speed.total) if has_trained else ():
            self.log.print(line)
        if accuracy is not None:
            self.log.print(f"test accuracy: {accuracy:.4f}")
        return Results(
            framework=config.framework,
            model=config.model,
            world_size=world_size,
            batch_size=config.batch_size,
            steps=self.steps,
            images_per_sec=self.speed.total if has_trained else None,
            accuracy=accuracy,
            history=self.run.history,
            run=self.run.name,
        )

    def _is_logged(self) -> bool:
        step, first = self.speed.steps, self.speed.untimed + 1
        return step in (first, self.steps) or (step > first and step % self.config.log_every == 0)


def seconds_since_start() -> float:
    """Return the seconds since this process started, including Python's own start."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
