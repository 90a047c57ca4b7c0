"""Test that steps with a non-finite loss are logged and counted, and that the run ends after too many of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distrain_trainer import results
from distrain_trainer.errors import DivergedError
from distrain_trainer.loop.json_line import PREFIX
from distrain_trainer.loop.progress import Progress
from tests.trainer.fixtures.counter_run import begin

NAN = math.nan


def progress_of(folder: Path, losses: Sequence[float], **values: Any) -> Progress:
    run = begin(folder, epochs=None, steps=len(losses), log_every=1, **values)
    progress = Progress.start(run)
    run.watchdog.stop()
    for loss in losses:
        progress.add(SimpleNamespace(samples=10, global_samples=10), loss=loss, seconds=1.0, mean=lambda value: value)
    return progress


def test_step_without_a_finite_loss_is_said_and_trained_past(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = progress_of(tmp_path, [1.0, 1.0, NAN, math.inf, 1.0, NAN, 1.0], max_bad_steps=2)

    out = capsys.readouterr().out
    said = [line.split(" is left out")[0] + line[line.index("(") :] for line in out.splitlines() if "left out" in line]
    assert said == [
        "step 3(1 in a row, trainer.maxBadSteps is 2)",
        "step 4(2 in a row, trainer.maxBadSteps is 2)",
        "step 6(1 in a row, trainer.maxBadSteps is 2)",
    ]
    assert [step.step for step in progress.run.history] == [5, 7]
    lines = [json.loads(line.removeprefix(PREFIX)) for line in out.splitlines() if line.startswith(PREFIX)]
    assert [line["loss"] for line in lines] == [None, None, 1.0, None, 1.0]


def test_run_keeps_a_bounded_part_of_what_it_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LOGGED_KEPT", 5)

    progress = progress_of(tmp_path, [1.0] * 42)

    assert len(progress.run.history) == 5
    assert progress.run.history[-1].step == 42


def test_too_many_such_steps_in_a_row_end_the_run_with_the_last_ones_number(tmp_path: Path) -> None:
    with pytest.raises(
        DivergedError,
        match=r"^trainer\.learningRate: the loss is nan at step 13; lower .* \(11 such steps in a row, and trainer",
    ):
        progress_of(tmp_path, [1.0, 1.0, *[NAN] * 11])


def test_none_are_passed_where_the_values_allow_none(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="the loss is nan at step 2;"):
        progress_of(tmp_path, [1.0, NAN], max_bad_steps=0)
