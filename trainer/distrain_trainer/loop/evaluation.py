"""Test the model after certain epochs, and keep the best model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from distrain_trainer import results
from distrain_trainer.loop.run import Run
from distrain_trainer.results import Accuracy, Evaluation

BEST_OF = 5


@dataclass
class Evaluator:
    """Test a run's model. All ranks must call the methods at the same steps.

    `tests` is the number of test samples of all ranks, or 0 if the data has none. `count` is the function that tests
    the model on all ranks. It returns how often the model's first choice is right, and how often one of its first five
    choices is right. `save` is the function that writes the tested model to a local path whose file name is `model`.
    """

    run: Run
    tests: int
    count: Callable[[], tuple[float, float]]
    save: Callable[[Path], None]
    model: str

    def is_due(self) -> bool:
        """Return whether the last step ended an epoch that has to be tested and has not been tested yet.

        If a process is killed before the test, the restarted run makes the test.
        """
        every, of_epoch = self.run.config.evaluate_every, self.run.subject.epoch_samples
        if not (every and of_epoch and self.tests):
            return False
        epoch, rest = divmod(self.run.position.samples, of_epoch)
        is_tested = any(each.epoch == epoch for each in self.run.evaluations)
        return epoch > 0 and rest == 0 and epoch % every == 0 and not is_tested

    def test_between_steps(self) -> None:
        with self.run.watchdog.paused():
            self._keep(self._accuracy())
            self.run.group.gather(None)  # Distributed: wait for rank 0, which may still be writing the best model.

    def at_end(self) -> Accuracy | None:
        """Return the accuracy after the last step, or None if there are no test samples.

        Call this only after the watchdog is stopped.
        """
        if not self.tests:
            return None
        self._keep_without_checkpoint()
        accuracy = self._accuracy()
        if self.is_due():
            self._keep(accuracy)
        self._say_if_best_is_elsewhere()
        return accuracy

    def _keep_without_checkpoint(self) -> None:
        """Write the model before its last test, because the test may find damaged samples and end the run.

        With checkpoints this is not needed: the last one has the weights, and a restarted run only makes the test.
        """
        run = self.run
        if run.writer is None and run.config.output and run.group.rank == 0:
            results.write_model(run.config.output, model_file=self.model, save=self.save)

    def _say_if_best_is_elsewhere(self) -> None:
        """Log a line if output.uri does not contain the best model.

        An earlier start tested this model, and wrote it to another output.uri or to none. Checkpoints contain only the
        newest weights, so this start cannot write it.
        """
        run, uri = self.run, self.run.config.output
        if not (uri and run.config.evaluate_every and run.evaluations and run.group.rank == 0):
            return
        best = max(run.evaluations, key=lambda each: each.accuracy)
        if not results.holds_best(uri, best):
            run.log.print(
                f"output.uri: {uri} does not contain the best model, that of epoch {best.epoch} (Accuracy @ 1 = "
                f"{best.accuracy:.4f}), because an earlier start tested it, and the checkpoints no longer have its "
                f"weights; look for it in the output.uri of that start"
            )

    def _accuracy(self) -> Accuracy:
        top1, top5 = self.count()
        return Accuracy(top1 / self.tests, top5 / self.tests)

    def _keep(self, accuracy: Accuracy) -> None:
        """Log and record the accuracy. If the accuracy is higher than in all earlier tests, write the model."""
        run, position = self.run, self.run.position
        assert run.subject.epoch_samples
        epoch = position.samples // run.subject.epoch_samples
        told = Evaluation(epoch, position.step, position.samples, *accuracy)
        run.log.print(
            f"epoch {epoch}: Accuracy @ 1 = {accuracy.top1:.4f} Accuracy @ 5 = {accuracy.top5:.4f} "
            f"[{self.tests} examples]"
        )
        run.record.add(
            "evaluation",
            epoch=epoch,
            step=position.step,
            samples=position.samples,
            accuracy=accuracy.top1,
            top5_accuracy=accuracy.top5,
        )
        is_best = all(each.accuracy < told.accuracy for each in run.evaluations)
        run.evaluations.append(told)
        is_fenced = run.lease is not None and run.lease.is_fenced
        if is_best and run.config.output and run.group.rank == 0 and not is_fenced:
            results.write_best(run.config.output, told, model_file=self.model, save=self.save)


def count_right(logits: Any, labels: Any, weights: Any) -> tuple[int, int]:
    """Count the samples whose label has the largest logit, and those whose label has one of the five largest logits.

    All arguments are NumPy arrays. `logits` has the shape (samples, classes), the other arrays (samples,). Samples of
    weight 0 do not count.
    """
    logits = np.where(np.isnan(logits), -np.inf, logits)
    # If all logits of a sample are NaN, the model has made no choice, so the sample counts as wrong.
    counts = (weights > 0) & (logits.max(axis=1) > -np.inf)
    first = logits.argmax(axis=1) == labels
    best = min(BEST_OF, logits.shape[1])
    among = (np.argpartition(-logits, best - 1, axis=1)[:, :best] == labels[:, np.newaxis]).any(axis=1)
    # If several logits are equal, argpartition may choose others than argmax does.
    return int(first[counts].sum()), int((among | first)[counts].sum())
