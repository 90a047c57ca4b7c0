"""Test a report's figures: times from pods with different clocks, rates, parts of a step, bytes of the all-reduce."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from distrain.record.read import parse
from distrain.report.figures import all_reduces, ideal, run_of
from distrain.report.timeline import time_line
from tests.plugin.report import records
from tests.plugin.report.records import event, start, step


def test_clock_that_is_behind_is_moved_forward_for_all_lines_of_its_process() -> None:
    lines = [start(0, 2), step(400, 10, 640), event("kill", 110), start(110, 2), step(130, 20, 1280)]

    line = time_line(records.record(lines).lines)

    assert [each.seconds for each in line.lines] == [0, 400, 400, 400, 420]
    assert line.notes == (
        "The clocks of the run's pods differ: once a time was before that of the line above it, by up to 290 s. "
        "Such times are moved forward.",
    )


def test_next_process_has_a_clock_of_its_own() -> None:
    lines = [start(300, 2), start(0, 2), step(10, 10, 640), start(400, 2)]

    line = time_line(records.record(lines).lines)

    assert [each.seconds for each in line.lines] == [0, 0, 10, 100]


def test_lines_without_a_time_have_that_of_the_line_before() -> None:
    lines = [{"event": "start"}, step(5, 1, 64), {"event": "step", "step": 2}, step(1e300, 3, 64)]

    line = time_line(records.record(lines).lines)

    assert [each.seconds for each in line.lines] == [None, 0, 0, 0]
    assert line.notes == ()


def test_kill_is_at_the_last_line_before_it() -> None:
    run = records.run(records.rescaled())

    assert [(mark.event, mark.seconds) for mark in run.marks] == [
        ("start", 0),
        ("checkpoint", 21),
        ("kill", 21),
        ("rescale", 60),
        ("start", 60),
        ("end", 82),
    ]
    assert run.marks[1].words == "1-12800, step 100, written in 0.5 s, held the training up for 0.02 s"
    assert run.marks[3].words == "from 2 to 3 ranks, step 100"


def test_parts_of_a_step_are_those_of_the_sums() -> None:
    times = records.run(records.rescaled()).times_by_ranks()

    assert list(times) == [2, 3]
    for of_size in times.values():
        assert of_size.steps == 100
        assert of_size.waiting_for_input == pytest.approx(5)
        assert of_size.computing == pytest.approx(15)
        assert of_size.saving == pytest.approx(1)
        assert of_size.communicating is None


def test_wait_for_the_all_reduce_is_a_part_of_the_computing() -> None:
    lines = [start(0, 2), *records.steps(0, 2, 0, 0, wait=0.03), start(60, 2), *records.steps(60, 2, 0, 0, wait=0.05)]

    times = records.run(lines).times_by_ranks()[2]

    assert times.computing == pytest.approx(30)
    assert times.communicating == pytest.approx(3 + 5)


def test_wait_that_one_of_two_starts_has_not_measured_is_unknown() -> None:
    lines = [start(0, 2), *records.steps(0, 2, 0, 0, wait=0.03), start(60, 2), *records.steps(60, 2, 0, 0)]

    assert records.run(lines).times_by_ranks()[2].communicating is None


@pytest.mark.parametrize(("wait", "expected"), [(1.0, 15.0), (-1.0, 0.0), (math.nan, None)])
def test_wait_is_never_longer_than_what_the_input_leaves(wait: float, expected: float | None) -> None:
    times = records.run([start(0, 2), *records.steps(0, 2, 0, 0, wait=wait)]).times_by_ranks()[2]

    assert times.communicating == (None if expected is None else pytest.approx(expected))


def test_single_rank_communicates_with_parameter_servers_alone() -> None:
    alone = records.run([start(0, 1), *records.steps(0, 1, 0, 0)])
    served = records.run([start(0, 1, values={"strategy": "parameter-server"}), *records.steps(0, 1, 0, 0)])

    assert alone.times_by_ranks()[1].communicating == 0
    assert served.times_by_ranks()[1].communicating is None


def test_times_in_milliseconds_are_kept() -> None:
    line = time_line(records.record([start(0.5, 2), step(0.625, 1, 64), step(2, 2, 128)]).lines)

    assert [each.seconds for each in line.lines] == [0, 0.125, 1.5]


@pytest.mark.parametrize("has_sums", [True, False])
def test_mean_rate_over_a_restart_is_samples_by_seconds(has_sums: bool) -> None:
    sums: list[dict[str, Any]] = [{"step_seconds_total": seconds} if has_sums else {} for seconds in (100.0, 1000.0)]
    one = step(100, 100, 10_000, images_per_second_mean=100.0, **sums[0])
    other = step(1110, 200, 20_000, images_per_second_mean=10.0, **sums[1])

    run = records.run([start(0, 4), one, event("kill", 110), start(110, 4, step=100, samples=10_000), other])

    assert run.rates() == {4: pytest.approx(20_000 / 1100)}


@pytest.mark.parametrize("head", [[], [{"event": "start", "world_size": 2}]], ids=["no start", "start without a step"])
def test_sums_of_a_program_count_from_its_first_line(head: list[dict[str, Any]]) -> None:
    names = ("step_seconds_total", "input_wait_seconds_total", "allreduce_wait_seconds_total")
    told = [step(10 * n, 500 + 10 * n, n, **dict.fromkeys(names, 1.0 * n)) for n in (1, 2, 3)]

    [times] = records.run([*head, *told]).times_by_ranks().values()

    # Between the first and the last line, 20 steps took 2 s, and all of these seconds were spent waiting for input.
    assert (times.steps, times.waiting_for_input, times.computing) == (20, 2.0, 0.0)
    assert times.communicating == 0.0


def test_mean_of_a_start_whose_steps_were_not_timed_follows_from_its_lines() -> None:
    lines = [step(n, n, 64 * n, images_per_second=64.0, images_per_second_mean=0.0) for n in (1, 2)]

    assert records.run([start(0, 2), *lines]).rates() == {2: 64.0}


def test_one_line_of_a_program_tells_no_time_of_a_step() -> None:
    assert records.run([step(10, 510, 1, step_seconds_total=1.0)]).times_by_ranks() == {}


def test_rate_that_a_program_does_not_tell_follows_from_its_samples() -> None:
    lines = [start(0, 2), step(10, 10, 1000), step(20, 20, 3000)]

    run = records.run(lines)

    assert [point.rate for point in run.points] == [None, 200]
    assert run.rates() == {2: 200}


def test_ideal_grows_with_the_ranks_from_the_smallest_size() -> None:
    assert ideal({2: 100.0, 8: 300.0}, 8) == 400


def test_all_reduce_bytes_follow_the_formula() -> None:
    two, three = all_reduces(records.run(records.rescaled()))

    assert (two.ranks, two.bytes_per_step) == (2, records.PARAMETER_BYTES)
    assert three.bytes_per_step == pytest.approx(2 * 2 * records.PARAMETER_BYTES / 3)
    # Each step spends 0.15 s on computing and communicating.
    assert two.bytes_per_second == pytest.approx(records.PARAMETER_BYTES / 0.15)


def test_parameter_servers_have_no_all_reduce() -> None:
    run = records.run([start(0, 2, values={"strategy": "parameter-server"})])

    assert all_reduces(run) == []


def test_record_of_the_smallest_program_has_one_start() -> None:
    content = b'{"event": "step", "unix_seconds": 1767225600, "step": 120, "loss": 0.52}\n'

    run = run_of(parse(content, ""), "run1", "")

    assert [(point.step, point.loss) for start in run.starts for point in start.points] == [(120, 0.52)]
    assert run.rates() == {}


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 1e300])
def test_loss_that_no_plot_can_show_counts_as_unknown(loss: float) -> None:
    line = json.dumps(step(10, 10, 640, loss=loss)).encode()

    run = run_of(parse(line, ""), "run1", "")

    assert [point.loss for point in run.points] == [None]
