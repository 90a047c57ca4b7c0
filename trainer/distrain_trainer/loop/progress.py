"""Log the steps of a training, and record the loss, the speed and other figures of each logged step."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from distrain_trainer import results
from distrain_trainer.checkpoint.files import place
from distrain_trainer.checkpoint.head import FINISHED
from distrain_trainer.errors import DivergedError
from distrain_trainer.loop import json_line, measures
from distrain_trainer.loop.images_per_second import HEADER, Speed, step_line, total_lines, untimed_steps
from distrain_trainer.loop.json_line import Throughput
from distrain_trainer.loop.run import Run
from distrain_trainer.results import Accuracy, LoggedStep, Results


class Counted(Protocol):
    """The numbers of samples in a step, from a Batch or from a worker's report."""

    @property
    def samples(self) -> int: ...

    @property
    def global_samples(self) -> int: ...


@dataclass
class Progress:
    """Time the steps of one rank. Log the first timed step, then every log_every-th step, and the last step."""

    run: Run
    steps: int
    speed: Speed
    samples: int
    throughput: Throughput = field(default_factory=Throughput)
    # The sum of the seconds of all steps since this start.
    seconds: float = 0.0

    @classmethod
    def start(cls, run: Run) -> Progress:
        """Start counting and logging the steps, from the step at which the run resumes.

        If steps are left, also start the watchdog.
        """
        run.log.print(HEADER)
        made = run.position.step
        speed = Speed(made + untimed_steps(run.steps - made), made)
        progress = cls(run, max(run.steps, made), speed, run.position.samples)
        progress.throughput.start(made, run.position.samples)
        if made < run.steps:
            run.watchdog.start()
        return progress

    def add(self, batch: Counted, *, loss: float, seconds: float, mean: Callable[[float], float]) -> None:
        """Record a step that took `seconds`, and log it if a log line is due.

        `mean` averages the loss over the ranks, so all ranks must call it at the same steps. A loss that is not finite
        means that the step was left out. Raises DivergedError after more than config.max_bad_steps bad steps in a row,
        or if the last step of the run was left out.
        """
        self.speed.add(samples=batch.samples, global_samples=batch.global_samples, seconds=seconds)
        self.samples += batch.global_samples
        self.seconds += seconds
        if self.speed.steps == self.speed.untimed:
            self.throughput.start(self.speed.steps, self.samples)
        self.run.watchdog.made_step(seconds)
        if self.run.resumed_step and self.speed.steps == self.run.resumed_step + 1:
            self.run.log.print(
                f"went on with step {self.speed.steps}, {seconds_since_start():.1f} s after this process started"
            )
        if self.speed.steps == self.steps:
            self.run.watchdog.stop()
        self._judge(loss)
        measures.set_position(self.run, self.speed.steps, self.samples)
        if self._is_logged():
            mean_loss = mean(loss)
            self.run.log.print(step_line(self.speed, mean_loss))
            self.throughput.add(self.speed.steps, self.samples)
            figures = self._figures(mean_loss)
            self.run.log.print(json_line.text(figures))
            self._record_step(figures, mean_loss)
            measures.set_logged(self.run, loss=mean_loss, images_per_second=self.throughput.images_per_second)
            if math.isfinite(mean_loss):
                results.add(self.run.history, LoggedStep(self.speed.steps, self.speed.rate, mean_loss))

    def _judge(self, loss: float) -> None:
        """Count the consecutive steps that were left out because the loss or a gradient was not finite."""
        if math.isfinite(loss):
            self.run.bad_steps = 0
            return
        self.run.bad_steps += 1
        step, most, bad_steps = self.speed.steps, self.run.config.max_bad_steps, self.run.bad_steps
        cure = f"the loss is {loss} at step {step}; lower trainer.learningRate or lengthen trainer.warmup"
        if bad_steps > most:
            raise DivergedError(
                f"trainer.learningRate: {cure} ({bad_steps} such steps in a row, and trainer.maxBadSteps is {most})"
            )
        self.run.log.print(
            f"step {step} is left out: its loss or a gradient is no finite number ({bad_steps} in a row, "
            f"trainer.maxBadSteps is {most})"
        )
        if step == self.steps:
            raise DivergedError(f"trainer.learningRate: {cure} (the last {bad_steps} of {step} steps were left out)")

    def _record_step(self, figures: dict[str, Any], loss: float) -> None:
        run, names = self.run, ("step", "epoch", "samples", "images_per_second", "images_per_second_mean")
        run.record.add(
            "step",
            **{name: figures[name] for name in names},
            loss=loss,
            step_seconds_total=self.seconds,
            input_wait_seconds_total=run.watchdog.waited,
            allreduce_wait_seconds_total=run.metrics.of_rank.get("allreduce_wait_seconds"),
            checkpoint_stall_seconds_total=run.writer.stalled if run.writer is not None else None,
        )

    def _figures(self, loss: float) -> dict[str, Any]:
        """Return the figures of the JSON line. docs/training.md explains them."""
        run, samples = self.run, self.throughput.lines[-1][2]
        saved = run.lease.head.checkpoint if run.lease is not None else None
        return {
            "step": self.speed.steps,
            "steps": self.steps,
            "epoch": round(samples / run.subject.epoch_samples, 4) if run.subject.epoch_samples else None,
            "epochs": run.config.epochs,
            "samples": samples,
            "images_per_second": round(self.throughput.images_per_second, 2),
            "images_per_second_mean": round(self.speed.total, 2),
            "loss": json_line.finite(loss),
            "eta_seconds": self.throughput.seconds_to(self.steps),
            "checkpoint": saved,
            "checkpoint_samples": place(saved)[1] if saved else None,
            "world_size": run.group.size,
            "unix_seconds": round(time.time()),
        }

    def finish(self, accuracy: Accuracy | None, *, model: str, save: Callable[[Path], None]) -> None:
        """Log the totals, write the outcome if the values specify an output, and mark the run as finished.

        `save` writes the model to a local path whose file name is `model`.
        """
        has_trained = self.speed.steps > self.run.resumed_step
        for line in total_lines(self.speed.total) if has_trained else ():
            self.run.log.print(line)
        if accuracy is not None:
            self.run.log.print(f"test accuracy: {accuracy.top1:.4f}")
        top1, top5 = accuracy or (None, None)
        config, group = self.run.config, self.run.group
        if config.output and group.rank == 0:  # Distributed: all ranks have the same model, so rank 0 writes its own.
            figures = Results(
                framework=config.framework,
                model=config.model,
                world_size=group.size,
                batch_size=config.batch_size,
                steps=self.steps,
                images_per_sec=self.speed.total if has_trained else None,
                accuracy=top1,
                history=self.run.history,
                run=self.run.name,
                model_file=model,
                top5_accuracy=top5,
                evaluations=self.run.evaluations,
            )
            results.write_outcome(config.output, figures, self.run.log, save=save)
        self.run.finish()
        self.run.record.end(
            FINISHED,
            step=self.speed.steps,
            samples=self.samples,
            images_per_second_mean=self.speed.total if has_trained else None,
            accuracy=top1,
            top5_accuracy=top5,
        )

    def _is_logged(self) -> bool:
        step, first = self.speed.steps, self.speed.untimed + 1
        return step in (first, self.steps) or (step > first and step % self.run.config.log_every == 0)


def seconds_since_start() -> float:
    """Return the seconds since this process started, including the start of Python itself."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
