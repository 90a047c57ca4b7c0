"""Make the training steps of a run whose ranks train in lockstep.

Each rank trains on its own part of every global batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from distrain_trainer.data import Batch, Dataset, batches_from_beside, end_batches
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.evaluation import Evaluator
from distrain_trainer.loop.progress import Counted, Progress
from distrain_trainer.loop.randomness import seed_step
from distrain_trainer.loop.run import Run
from distrain_trainer.schedule import learning_rate


class Outcome(NamedTuple):
    """The outcome of a step, known once the step is computed.

    `loss` is the mean loss of all ranks. If the step was left out, the loss is NaN. But if the step was left out with
    an fp16 loss scale above 1, the scale probably caused an overflow, and the loss stays as computed. The loss is
    finite on all ranks or on none, so all ranks decide in the same way whether to save. `asked` is the strongest
    request of any rank: nothing, save or stop, as a number in stop_flag. `allreduce_wait` is the number of seconds for
    which this rank, after computing its own gradients, waited for the averaged gradients. `allreduce_wait` is None if
    unknown.
    """

    loss: float
    asked: int
    allreduce_wait: float | None = None


class MakeStep(Protocol):
    """A framework's function that makes a step.

    Its arguments are the learning rate, the seed for layers such as dropout, and this rank's request to stop.
    """

    def __call__(self, batch: Any, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        """Begin a step, and return the function that waits for its outcome."""


def make_steps(
    run: Run,
    dataset: Dataset,
    make_step: MakeStep,
    *,
    prepare: Callable[[Iterator[Batch]], Iterator[Any]] = iter,
    ahead: int = 0,
    evaluator: Evaluator | None = None,
) -> Progress:
    """Make all remaining steps. `prepare` turns batches into the input of `make_step`.

    Begin `ahead` more steps before waiting for the outcome of a step, so that a GPU never waits for this process.
    `evaluator` tests the model between steps. Raises DivergedError after too many bad steps, StoppedError on a request
    to stop.
    """
    config, rank, ranks = run.config, run.group.rank, run.group.size
    # Distributed: each rank trains on its own part of the samples.
    source = batches_from_beside(config, dataset, rank=rank, ranks=ranks, start=run.position)
    batches = prepare(source)
    run.metrics.begin_steps()
    begun = BegunSteps(run, Progress.start(run))
    for step in range(run.position.step, run.steps):
        if evaluator is not None and evaluator.is_due():
            begun.end(leave=0)
            evaluator.test_between_steps()
        started = time.perf_counter()
        batch = run.watchdog.next(batches)
        samples, epoch_samples = run.position.samples, run.subject.epoch_samples
        # Distributed: the global batch grows with the number of ranks, and the learning rate with it.
        rate = learning_rate(config, step=step, ranks=ranks, samples=samples, epoch_samples=epoch_samples)
        # Distributed: each rank gets its own seed and its own dropout.
        seed = seed_step(config, rank=rank, samples=samples)
        outcome = make_step(batch, rate=rate, seed=seed, asked=run.asked)
        begun.add(batch, outcome, started)
        begun.end(leave=ahead)
    begun.end(leave=0)
    end_batches(source)
    return begun.progress


@dataclass
class BegunSteps:
    """The steps that have begun but whose outcomes are not known yet. Every rank has the same steps in its list."""

    run: Run
    progress: Progress
    steps: deque[tuple[Counted, Callable[[], Outcome], float]] = field(default_factory=deque)
    last_end: float = 0.0

    def add(self, batch: Counted, outcome: Callable[[], Outcome], started: float) -> None:
        self.steps.append((batch, outcome, started))
        self.run.begin_step(batch.global_samples)

    def end(self, *, leave: int) -> None:
        """Wait for the outcomes of all steps except the last `leave` steps. Raises DivergedError, and StoppedError."""
        while len(self.steps) > leave:
            asked = self._end_first()
            # If a rank asks to stop, all ranks stop after the last step that they have begun.
            while asked > stop_flag.BUSY and self.steps:
                asked = max(asked, self._end_first())
            self.run.end_step(self.progress.speed.steps, asked=asked)

    def _end_first(self) -> int:
        """Wait for the outcome of the first step, and record it.

        Return the strongest request of any rank in that step: nothing, save or stop, as a number in stop_flag.
        """
        batch, outcome, started = self.steps.popleft()
        loss, asked, allreduce_wait = outcome()
        end = time.perf_counter()
        # If this step began before the previous step ended, count its time from the end of the previous step.
        seconds, self.last_end = end - max(started, self.last_end), end
        self.run.metrics.made_step(
            samples=batch.samples,
            seconds=seconds,
            input_wait=self.run.watchdog.waited,
            allreduce_wait=allreduce_wait,
        )
        self.progress.add(batch, loss=loss, seconds=seconds, mean=lambda mean: mean)
        return asked
