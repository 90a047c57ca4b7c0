"""Test that a step begins before the previous step's outcome is known. Stops and checkpoints must still work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.errors import StoppedError
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.loop.steps import Outcome, make_steps
from tests.trainer.fixtures import saved_state
from tests.trainer.fixtures.counter_run import DATASET, Counter, begin
from tests.trainer.fixtures.disk import wait_until


class Device:
    """Makes the steps of a run, and records when each step begins and when its outcome is requested."""

    def __init__(self, run: Run, *, asks_at: int = 0) -> None:
        self.run, self.asks_at = run, asks_at
        self.begun = run.position.step
        self.events: list[str] = []

    def __call__(self, batch: Any, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        assert isinstance(self.run.state, Counter)
        self.run.state.weight += 1
        self.begun += 1
        step = self.begun
        self.events.append(f"begin {step}")

        def outcome() -> Outcome:
            self.events.append(f"end {step}")
            reason = stop_flag.SIGTERM if step == self.asks_at else asked
            return Outcome(1.0, reason)

        return outcome


def test_next_step_begins_before_the_outcome_is_waited_for(tmp_path: Path) -> None:
    events = {}
    for ahead in (0, 1):
        run = begin(tmp_path / str(ahead), epochs=None, steps=3)
        device = Device(run)
        progress = make_steps(run, DATASET, device, ahead=ahead)
        events[ahead] = device.events
        assert (progress.speed.steps, progress.samples, run.position.samples) == (3, 30, 30)

    assert events[0] == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]
    assert events[1] == ["begin 1", "begin 2", "end 1", "begin 3", "end 2", "end 3"]


def test_run_stops_after_the_last_step_that_has_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begin(tmp_path, epochs=None, steps=9)
    device = Device(run, asks_at=3)

    with pytest.raises(StoppedError):
        make_steps(run, DATASET, device, ahead=1)

    assert device.events[-3:] == ["begin 4", "end 3", "end 4"]
    assert "stopped at step 4 (40 samples) after SIGTERM; resumes there" in capsys.readouterr().out
    again = begin(tmp_path, counter := Counter(), epochs=None, steps=9)
    assert (again.position.step, counter.weight.tolist()) == (4, [4.0])


def test_checkpoint_holds_the_steps_that_have_begun(tmp_path: Path) -> None:
    run = begin(tmp_path, epochs=None, steps=100, checkpoint_every=0.001, checkpoint_keep=100)
    make_steps(run, DATASET, Device(run), ahead=1)
    writer = run.writer
    assert writer
    wait_until(lambda: writer.saved_samples > 0)
    writer.close()

    saved = [path.parent for path in tmp_path.glob("*/manifest.json")]
    assert saved
    for checkpoint in saved:
        samples = int(checkpoint.name.partition("-")[2])
        assert saved_state.numbers(checkpoint)["model.weight"] == [samples / 10]


def test_state_after_a_step_is_settled_by_the_step_after_it_alone(tmp_path: Path) -> None:
    run = begin(tmp_path, epochs=None, steps=9)
    assert run.writer
    for _ in range(2):
        run.begin_step(10)
    run.writer.save(partial(snapshot, run), holds=True)

    for step, is_held in ((1, True), (2, True), (3, False)):
        run.writer.settle(step, is_good=False)
        assert (run.writer._held is not None) is is_held
