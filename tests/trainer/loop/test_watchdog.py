"""Test that a rank that hangs ends the run, but that a rank with slow input or a running compiler does not.

All tests except one use a fake clock, because on a busy machine any thread may be delayed for seconds.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace

import pytest

from distrain_trainer.loop import beacon, watchdog
from distrain_trainer.loop.beacon import Beacon
from distrain_trainer.loop.watchdog import FIRST_STEP_SECONDS, LEAST_SECONDS, LONGEST_SECONDS, Watchdog
from lab.paths import REPOSITORY
from lab.waiting import wait_until

PROGRAM = """
import time
from distrain_trainer.loop import watchdog
watchdog.LEAST_SECONDS, watchdog.SECONDS_BETWEEN = 0.5, 0.05
dog = watchdog.Watchdog()
dog.start()
for _ in range(3):
    dog.made_step(0.01)
time.sleep(60)
"""


class Clock:
    """The fake clock that the watchdog reads, in seconds. The watchdog looks at it once a second."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, dog: Watchdog, seconds: float, each_second: Callable[[], None] = lambda: None) -> float | None:
        """Advance the fake clock by `seconds`, or until a time limit is exceeded.

        Return this limit, or None.
        """
        for _ in range(round(seconds)):
            self.now += 1
            each_second()
            if (limit := dog.exceeded(self.now)) is not None:
                return limit
        return None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watchdog, "time", clock)
    return clock


@pytest.fixture
def dog(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Watchdog:
    """A watchdog before the first step.

    Its thread is not started, so it checks the time only when the test calls it.
    """
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    dog = Watchdog()
    dog.start()
    monkeypatch.undo()
    monkeypatch.setattr(watchdog, "time", clock)
    return dog


@pytest.fixture
def trained(dog: Watchdog, clock: Clock) -> Watchdog:
    """A watchdog after four steps that took one second each."""
    for _ in range(4):
        clock.now += 1
        dog.made_step(1.0)
    return dog


def test_step_that_never_ends_ends_the_process() -> None:
    environment = {"PYTHONPATH": str(REPOSITORY / "trainer")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=300
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith("distrain: no step was made for 0 s: a rank hangs")


def test_limit_of_a_first_step_is_an_hour(dog: Watchdog, clock: Clock) -> None:
    assert clock.wait(dog, FIRST_STEP_SECONDS) is None
    assert clock.wait(dog, 1) == FIRST_STEP_SECONDS


@pytest.mark.parametrize("steps", [1, 2])
def test_limit_of_steps_that_may_compile_is_half_an_hour(dog: Watchdog, clock: Clock, steps: int) -> None:
    for _ in range(steps):
        dog.made_step(1.0)

    assert clock.wait(dog, LONGEST_SECONDS) is None
    assert clock.wait(dog, 1) == LONGEST_SECONDS


def test_limit_of_a_later_step(trained: Watchdog, clock: Clock) -> None:
    assert clock.wait(trained, LEAST_SECONDS) is None
    assert clock.wait(trained, 1) == LEAST_SECONDS


def test_long_steps_make_patient(dog: Watchdog, clock: Clock) -> None:
    for _ in range(4):
        clock.now += 12
        dog.made_step(12.0)

    assert dog.limit == 120.0


def test_process_that_was_suspended_is_given_its_time_again(trained: Watchdog, clock: Clock) -> None:
    clock.now += 3600

    assert clock.wait(trained, LEAST_SECONDS) is None


def test_work_after_the_last_step_is_not_watched(trained: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "end_rank", lambda error: pytest.fail(str(error)))
    trained.stop()

    trained._watch()


def waiting_for_input(dog: Watchdog, clock: Clock, seconds: float) -> float | None:
    def batches() -> Iterator[float | None]:
        yield clock.wait(dog, seconds)

    return dog.next(batches())


def test_input_is_waited_for_half_an_hour(trained: Watchdog, clock: Clock) -> None:
    assert waiting_for_input(trained, clock, LONGEST_SECONDS) is None
    assert waiting_for_input(trained, clock, 1) == LONGEST_SECONDS


def test_compiler_is_waited_for(trained: Watchdog, clock: Clock) -> None:
    compiler = compile(
        "def convert(): return clock.wait(dog, LONGEST_SECONDS)",
        "/venv/site-packages/torch/_dynamo/convert_frame.py",
        "exec",
    )
    found = {"clock": clock, "dog": trained, "LONGEST_SECONDS": LONGEST_SECONDS}
    exec(compiler, found)
    convert: Callable[[], float | None] = found["convert"]  # type: ignore[assignment]

    assert convert() is None


def test_another_rank_that_is_busy_is_waited_for(trained: Watchdog, clock: Clock) -> None:
    trained.beacon = ours = Beacon()

    def hear() -> None:
        ours.last_heard = clock.now

    assert clock.wait(trained, LONGEST_SECONDS, each_second=hear) is None
    assert clock.wait(trained, 1, each_second=hear) == LONGEST_SECONDS


def test_busy_rank_is_heard_and_a_stranger_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    times = count(1)
    monkeypatch.setattr(beacon, "time", SimpleNamespace(monotonic=lambda: next(times)))
    ours, other, stranger = Beacon(), Beacon(), Beacon()
    for rank, known in ((ours, [ours, other]), (other, [ours, other]), (stranger, [ours])):
        rank.listen([each.endpoint for each in known])

    stranger.say_busy()
    other.say_busy()

    # Loopback delivers datagrams in order. So if the other rank's datagram has been read, the one with the wrong token
    # has been read before.
    wait_until("the other rank's datagram", lambda: ours.last_heard > float("-inf"), pause=0.01)
    assert ours.last_heard == 1


def test_test_between_steps_is_no_hang_and_makes_no_step_longer(trained: Watchdog, clock: Clock) -> None:
    with trained.paused():
        assert clock.wait(trained, LONGEST_SECONDS - 1) is None

    assert clock.wait(trained, LEAST_SECONDS) is None
    assert clock.wait(trained, 1) == LEAST_SECONDS
