"""Test that a rank that hangs ends the run, and that slow input or a compiler does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from distrain_trainer.loop.watchdog import Watchdog
from lab.paths import REPOSITORY

PROGRAM = """
import sys, time
from distrain_trainer.loop import watchdog
from distrain_trainer.loop.beacon import Beacon
watchdog.LEAST_SECONDS, watchdog.SECONDS_BETWEEN = 0.5, 0.05
watchdog.SECONDS_OF_INPUT, watchdog.SECONDS_HEARD = 0.1, 0.4
{before}
dog = watchdog.Watchdog()
dog.start()
for _ in range({steps}):
    dog.made_step({seconds})
{then}
time.sleep(1.5)
"""


def _run(steps: int, then: str = "", seconds: float = 0.01, before: str = "") -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(steps=steps, then=then, seconds=seconds, before=before)
    command = [sys.executable, "-c", program]
    environment = {"PYTHONPATH": str(REPOSITORY / "trainer")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_step_that_never_ends_ends_the_process() -> None:
    ended = _run(steps=3)

    assert ended.returncode == 1
    assert ended.stderr.startswith("distrain: no step was made for 0 s: a rank hangs")


def test_first_step_that_never_ends_ends_the_process() -> None:
    ended = _run(steps=0, before="watchdog.FIRST_STEP_SECONDS, watchdog.LONGEST_SECONDS = 0.5, 0.1")

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


INPUT = """
def slow():
    time.sleep(1.5)
    yield "a batch"
dog.next(slow())
dog.stop()
"""
COMPILER = """
code = compile("def convert(): time.sleep(1.5)", "/venv/site-packages/torch/_dynamo/convert_frame.py", "exec")
exec(code, globals())
convert()
dog.stop()
"""
OTHER_RANK = """
dog.beacon, other, stranger = Beacon(), Beacon(), Beacon()
dog.beacon.listen([dog.beacon.endpoint, other.endpoint])
other.listen([dog.beacon.endpoint, other.endpoint])
stranger.listen([dog.beacon.endpoint])
for _ in range(30):
    time.sleep(0.05)
    {who}.say_busy()
dog.stop()
"""


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(INPUT, id="input-that-waits"),
        pytest.param(COMPILER, id="compiler"),
        pytest.param(OTHER_RANK.format(who="other"), id="another-rank-that-is-busy"),
    ],
)
def test_what_is_seen_to_be_no_hang_is_waited_for(then: str) -> None:
    ended = _run(steps=4, then=then)

    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("watchdog.LONGEST_SECONDS = 1.0" + INPUT, id="input-that-never-comes"),
        pytest.param(OTHER_RANK.format(who="stranger"), id="datagrams-of-a-stranger"),
    ],
)
def test_excuse_that_is_none_or_too_long_does_not_hold(then: str) -> None:
    ended = _run(steps=4, then=then)

    assert ended.returncode == 1
    assert ended.stderr.startswith("distrain: no step was made for ")


def test_first_steps_may_compile() -> None:
    assert _run(steps=2).returncode == 0


def test_long_steps_make_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 112.0, 124.0, 136.0])
    monkeypatch.setattr("distrain_trainer.loop.watchdog.time.monotonic", lambda: next(times))
    monkeypatch.setattr("distrain_trainer.loop.watchdog.threading.Thread.start", lambda _: None)
    dog = Watchdog()
    for _ in range(4):
        dog.made_step(1.0)

    assert dog.limit == 120.0
