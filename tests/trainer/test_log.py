"""Test the figures in log lines and in the history, and the learning rate schedule."""

from __future__ import annotations

import json
import pickle
import re
from itertools import pairwise

import numpy as np
import pytest

from distrain_trainer import results
from distrain_trainer.config import Config
from distrain_trainer.log import Log
from distrain_trainer.loop.images_per_second import Speed, step_line, total_lines, untimed_steps
from distrain_trainer.results import LoggedStep, Results
from distrain_trainer.schedule import learning_rate


def timed(*seconds: float, untimed: int = 0) -> Speed:
    """Return a Speed after steps of 10 samples on each of two ranks."""
    speed = Speed(untimed)
    for value in seconds:
        speed.add(samples=10, global_samples=20, seconds=value)
    return speed


def test_step_line_is_the_one_of_tf_cnn_benchmarks() -> None:
    line = step_line(timed(1.0, 2.0), 2.3456)

    # The rank has trained on 20 images in 3 s. The rates of its two steps, 10 and 5, have a standard error of 2.5 /
    # sqrt(2) and a median deviation of 2.5.
    assert line == "2\timages/sec: 6.7 +/- 1.8 (jitter = 3.7)\t2.346"


def test_line_says_what_all_steps_say_together() -> None:
    seconds = np.random.default_rng(0).uniform(0.5, 2.0, 1000)
    rates = 10 / seconds

    line = step_line(timed(*seconds), 1.0)

    jitter = 1.4826 * np.median(np.abs(rates - np.median(rates)))
    error = rates.std() / np.sqrt(1000)
    assert line == f"1000\timages/sec: {10000 / seconds.sum():.1f} +/- {error:.1f} (jitter = {jitter:.1f})\t1.000"


def test_what_a_line_is_made_of_does_not_grow_with_the_steps() -> None:
    few, many = timed(*[0.1] * 1_000), timed(*[0.1] * 20_000)

    assert pickled(many) < pickled(few) + 100
    assert step_line(many, 1.0) == step_line(few, 1.0).replace("1000", "20000", 1)


def pickled(speed: Speed) -> int:
    return len(pickle.dumps(speed))


def test_total_is_of_all_ranks_between_rules() -> None:
    lines = total_lines(timed(1.0, 2.0).total)

    assert lines == ["-" * 64, "total images/sec: 13.33", "-" * 64]


def test_first_steps_do_not_count_as_speed() -> None:
    # The first step takes a minute, because it also compiles.
    speed = timed(60.0, 1.0, 1.0, untimed=1)

    assert speed.rate == pytest.approx(10)
    assert speed.steps == 3


@pytest.mark.parametrize(("steps", "untimed"), [(1, 0), (2, 1), (5, 1), (10, 2), (50, 10), (1000, 10)])
def test_untimed_steps_leave_some_to_time(steps: int, untimed: int) -> None:
    assert untimed_steps(steps) == untimed


def test_only_the_speaking_rank_prints_and_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    speaking, silent = Log(speaks=True), Log(speaks=False)

    for log in (speaking, silent):
        log.print("a line")

    assert capsys.readouterr().out == "a line\n"
    assert speaking.text() == "a line\n"
    assert silent.text() == ""


def test_name_that_is_not_utf8_is_printed_and_kept_with_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(speaks=True)

    log.print("caf\udce9.jpg, café.jpg")

    assert capsys.readouterr().out == "caf\\udce9.jpg, café.jpg\n"
    assert log.text().encode() == "caf\\udce9.jpg, café.jpg\n".encode()


def test_results_are_readable_json() -> None:
    history = [LoggedStep(step=1, images_per_sec=10.0, loss=2.3)]
    results = Results("tensorflow", "mnist", 2, 32, 1, 20.0, None, history)

    record = json.loads(results.to_json())

    assert record["world_size"] == 2
    assert record["accuracy"] is None
    assert record["history"] == [{"step": 1, "images_per_sec": 10.0, "loss": 2.3}]


def history_of(steps: int) -> list[LoggedStep]:
    history: list[LoggedStep] = []
    for step in range(steps):
        results.add(history, LoggedStep(step, 1.0, 2.3))
    return history


@pytest.mark.parametrize("logged", [1000, 1001, 1500, 2999, 5000])
def test_logged_steps_that_are_kept_are_spread_evenly_over_the_run(logged: int) -> None:
    steps = [each.step for each in history_of(logged)]

    gaps = {after - before for before, after in pairwise(steps)}
    assert (len(steps), steps[0], steps[-1]) == (1000, 0, logged - 1)
    # The last step is always kept, so the gap before it may be small. All other gaps between kept steps differ by less
    # than a factor of three.
    assert max(gaps) < 3 * min({after - before for before, after in pairwise(steps[:-1])})


def test_resumed_run_keeps_the_logged_steps_that_an_unbroken_one_does() -> None:
    stopped = history_of(2500)

    for step in range(2500, 3000):
        results.add(stopped, LoggedStep(step, 1.0, 2.3))

    assert stopped == history_of(3000)


def test_all_the_logged_steps_of_an_earlier_trainer_become_fewer() -> None:
    history = [LoggedStep(step, 1.0, 2.3) for step in range(45_000)]

    results.add(history, LoggedStep(45_000, 1.0, 2.3))

    assert (len(history), history[0].step, history[-1].step) == (1000, 0, 45_000)


def test_learning_rate_grows_with_the_global_batch() -> None:
    config = Config(steps=10, batch_size=64, learning_rate=0.1)

    rates = [learning_rate(config, step=0, ranks=ranks) for ranks in (1, 4, 8)]

    assert rates == pytest.approx([0.025, 0.1, 0.2])


def test_learning_rate_rises_over_the_warm_up_and_stays() -> None:
    config = Config(steps=10, batch_size=256, learning_rate=0.1, warmup=4)

    rates = [learning_rate(config, step=step, ranks=1) for step in range(6)]

    assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])


def test_step_line_matches_what_peoples_tools_look_for() -> None:
    line = step_line(timed(1.0), 0.5)

    assert re.fullmatch(r"\d+\timages/sec: [\d.]+ \+/- [\d.]+ \(jitter = [\d.]+\)\t[\d.]+", line)
