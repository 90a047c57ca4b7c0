"""A rank that hangs ends the run, and nothing else does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from distrain_trainer.watchdog import Watchdog
from lab.paths import REPOSITORY

PROGRAM = """
import sys, time
from distrain_trainer import watchdog
watchdog.LEAST_SECONDS, watchdog.SECONDS_BETWEEN = 0.5, 0.05
dog = watchdog.Watchdog()
for _ in range({steps}):
    dog.made_step({seconds})
{then}
time.sleep(1.5)
"""


def _run(steps: int, then: str = "", seconds: float = 0.01) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(steps=steps, then=then, seconds=seconds)
    command = [sys.executable, "-c", program]
    environment = {"PYTHONPATH": str(REPOSITORY / "trainer")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_step_that_never_ends_ends_the_process() -> None:
    ended = _run(steps=3)

    assert ended.returncode == 1
    assert ended.stderr.startswith("distrain: no step was made for 0 s: a rank hangs")


@pytest.mark.parametrize(
    ("steps", "then", "seconds"),
    [
        pytest.param(0, "", 0.01, id="first-step"),
        pytest.param(1, "", 1.0, id="step-after-a-long-first-one"),
        pytest.param(3, "dog.stop()", 0.01, id="after-the-last-step"),
    ],
)
def test_what_may_take_its_time_is_left_alone(steps: int, then: str, seconds: float) -> None:
    assert _run(steps, then, seconds).returncode == 0


def test_long_steps_make_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 112.0, 124.0, 136.0])
    monkeypatch.setattr("distrain_trainer.watchdog.time.monotonic", lambda: next(times))
    monkeypatch.setattr("distrain_trainer.watchdog.threading.Thread.start", lambda _: None)
    dog = Watchdog()
    for _ in range(4):
        dog.made_step(1.0)

    assert dog.limit == 120.0
