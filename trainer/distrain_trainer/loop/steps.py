"""Make the steps of a run whose ranks train in step, each on its own part of every global batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from distrain_trainer.data import Batch, Dataset, train_batches
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import seed_step
from distrain_trainer.loop.run import Run
from distrain_trainer.schedule import learning_rate


class MakeStep(Protocol):
    """A framework's step, with the learning rate, the seed for layers such as dropout, and this rank's stop request."""

    def __call__(self, batch: Any, *, rate: float, seed: int, asked: int) -> tuple[float, Callable[[], int]]:
        """Return this rank's loss, and the function that waits for the largest stop request of all ranks.

        The loss is NaN if the step was left out, unless an fp16 loss scale above 1 is the cause.
        """


def make_steps(
    run: Run,
    dataset: Dataset,
    make_step: MakeStep,
    *,
    mean: Callable[[float], float],
    prepare: Callable[[Iterator[Batch]], Iterator[Any]] = iter,
) -> Progress:
    """Make all remaining steps. `mean` averages a number over the ranks, `prepare` turns batches into what steps take.

    Raises DivergedError after too many bad steps, StoppedError on a request to stop.
    """
    config, rank, ranks = run.config, run.group.rank, run.group.size
    # Distributed: each rank trains on its own part of the samples.
    batches = prepare(train_batches(config, dataset, rank=rank, ranks=ranks, start=run.position))
    progress = Progress.start(run)
    for step in range(run.position.step, run.steps):
        started = time.perf_counter()
        batch = run.watchdog.next(batches)
        # Distributed: the learning rate grows with the number of ranks, as the global batch does.
        rate = learning_rate(config, step=step, ranks=ranks)
        # Distributed: dropout differs between ranks.
        seed = seed_step(config, rank=rank, samples=run.position.samples)
        loss, asked = make_step(batch, rate=rate, seed=seed, asked=run.asked)
        progress.add(batch, loss=loss, seconds=time.perf_counter() - started, mean=mean)
        run.made_step(batch.global_samples, asked=asked())
    return progress
