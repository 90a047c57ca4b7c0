"""Test the progress line that other programs read: its figures are correct, and it is valid JSON."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distrain_trainer.loop.json_line import PREFIX
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.run import Run
from tests.trainer.fixtures.counter_run import begin, save_step

BATCH = SimpleNamespace(samples=10, global_samples=10)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("distrain_trainer.loop.json_line.time.monotonic", lambda: clock.now)
    return clock


def train(run: Run, clock: SimpleNamespace, *, seconds: float, loss: float = 0.5) -> None:
    """Make steps that take `seconds` each on the fake clock.

    In each step, one second is spent on computing.
    """
    progress = Progress.start(run)
    run.watchdog.stop()
    for _ in range(run.position.step, run.steps):
        clock.now += seconds
        progress.add(BATCH, loss=loss, seconds=1.0, mean=lambda value: value)
        run.position = run.position.after_step(10, ranks=1, batch_size=10, epoch_samples=100)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(PREFIX)) for line in capsys.readouterr().out.splitlines() if PREFIX in line]


def test_line_says_how_far_the_run_is(
    tmp_path: Path, clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path, epochs=2, log_every=5)

    train(run, clock, seconds=2.0)

    first, second, *_, last = lines(capsys)
    assert last.pop("unix_seconds") > 1_700_000_000
    assert last == {
        "step": 20,
        "steps": 20,
        "epoch": 2.0,
        "epochs": 2,
        "samples": 200,
        "images_per_second": 5.0,
        "images_per_second_mean": 10.0,
        "loss": 0.5,
        "eta_seconds": 0,
        "checkpoint": None,
        "checkpoint_samples": None,
        "world_size": 1,
    }
    assert [(line["step"], line["eta_seconds"]) for line in (first, second)] == [(5, 30), (10, 20)]


def test_line_follows_each_logged_step(
    tmp_path: Path, clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    train(begin(tmp_path, epochs=2, log_every=5), clock, seconds=2.0)

    shown = capsys.readouterr().out.splitlines()
    logged = [number for number, line in enumerate(shown) if "images/sec" in line]
    assert len(logged) == 4
    assert all(shown[number + 1].startswith(PREFIX) for number in logged)


def test_line_names_the_newest_checkpoint(
    tmp_path: Path, clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path, epochs=None, steps=3)
    save_step(run)

    train(run, clock, seconds=1.0)

    assert [(line["checkpoint"], line["checkpoint_samples"]) for line in lines(capsys)][-1] == ("1-10", 10)
