"""Test that bad steps do not lead to checkpoints, and that the good checkpoints are kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from distrain_trainer.checkpoint.files import place
from distrain_trainer.errors import DivergedError, StoppedError
from distrain_trainer.loop import message, stop_flag
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.steps import Outcome, make_steps
from tests.trainer.fixtures.counter_run import DATASET, Counter, begin, make_step
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.ranks import Ranks, in_threads

__all__ = ["in_threads"]


class Training:
    """A run of 100 steps, in which a checkpoint is due after every step."""

    def __init__(self, folder: Path) -> None:
        self.run = begin(folder, epochs=None, steps=100, checkpoint_every=0.001, checkpoint_keep=1)
        self._progress = Progress.start(self.run)

    def step(self, loss: float) -> None:
        step = SimpleNamespace(samples=10, global_samples=10)
        self._progress.add(step, loss=loss, seconds=1.0, mean=lambda value: value)
        self.run.watchdog.stop()
        make_step(self.run)

    def good_steps_until_saved(self) -> str:
        """Make good steps until a checkpoint is saved and the writer also holds the snapshot of a later state.

        Return the checkpoint.
        """
        writer = self.run.writer
        assert writer
        for _ in range(50):
            self.step(1.0)
            wait_until(lambda: not writer._is_busy)
            time.sleep(0.002)  # Now the next checkpoint is due.
            if (saved := newest(self.run)) and writer._held:
                return saved
        pytest.fail("it was never saved")


def newest(run: Run) -> str | None:
    assert run.lease
    return run.lease.head.checkpoint


def test_checkpoint_from_before_the_weights_broke_stays_the_newest(tmp_path: Path) -> None:
    training = Training(tmp_path)
    saved = training.good_steps_until_saved()
    # The bad steps show that the last good step has broken the weights. So the snapshot that the writer holds must not
    # be saved.
    for _ in range(5):
        training.step(math.nan)
        time.sleep(0.02)

    assert newest(training.run) == saved
    assert [path.parent.name for path in tmp_path.glob("*/manifest.json")] == [saved]


def test_run_stopped_after_bad_steps_resumes_from_before_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = Training(tmp_path)
    saved = training.good_steps_until_saved()
    training.step(math.nan)
    training.run.request.reason = stop_flag.SIGTERM

    with pytest.raises(StoppedError):
        training.step(math.nan)

    finding = "the loss or a gradient of the last steps (2) is not finite"
    assert f"after SIGTERM; not saved, because {finding}; resumes from {saved}\n" in capsys.readouterr().out
    assert f"1-{begin(tmp_path, epochs=None, steps=100).position.samples}" == saved


def test_checkpoints_are_saved_again_after_a_good_step(tmp_path: Path) -> None:
    training = Training(tmp_path)
    for loss in (1.0, math.nan, math.nan):
        training.step(loss)

    assert place(training.good_steps_until_saved()) >= (1, 40)


def test_run_whose_last_steps_are_bad_has_diverged(tmp_path: Path) -> None:
    run = begin(tmp_path, epochs=None, steps=3)
    progress = Progress.start(run)
    step = SimpleNamespace(samples=10, global_samples=10)
    run.watchdog.stop()
    for loss in (1.0, math.nan):
        progress.add(step, loss=loss, seconds=1.0, mean=lambda value: value)

    with pytest.raises(
        DivergedError,
        match=r"^trainer\.learningRate: the loss is nan at step 3; lower .* \(the last 2 of 3 steps were left out\)$",
    ):
        progress.add(step, loss=math.nan, seconds=1.0, mean=lambda value: value)


def test_loss_that_is_bad_on_one_rank_keeps_no_rank_from_saving(in_threads: None, tmp_path: Path) -> None:
    def work(group: ProcessGroup) -> tuple[int, int]:
        run = begin(tmp_path, state := Counter(), group=group, epochs=None, steps=60, checkpoint_every=0.001)

        def make_step(batch: Any, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
            wait_until(lambda: run.writer is None or not run.writer._is_busy)
            time.sleep(0.002)  # Now the next checkpoint is due.
            state.weight += 1
            step = run.position.step + 1
            # Only rank 1 has a bad loss. The gradients of all ranks are finite.
            own = math.nan if group.rank == 1 and step % 20 in range(10, 16) else 1.0
            mine = np.zeros(message.SIZE)
            mine[0], mine[1 + asked] = own, 1
            told = np.sum(group.gather(mine), axis=0)
            return lambda: message.outcome(own, told.tolist(), group.size)

        make_steps(run, DATASET, make_step)
        run.finish()
        assert run.writer
        return run.writer.saved_samples, run.bad_steps

    [(saved, bad_steps), of_rank_1] = Ranks(2).run(work)

    assert (saved, bad_steps) == of_rank_1
    assert saved > 40 * 20
