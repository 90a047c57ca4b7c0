"""Test that distrain-launch stops the ranks at a step boundary on SIGTERM, and logs the step."""

from __future__ import annotations

import re

import pytest

from tests.chart.scripts.launch.workers import ASKED, LIVE, Workers, address
from tests.chart.scripts.launching import TRAINING, follow


def test_ranks_that_are_ended_by_force_with_the_pod_are_reported(workers: Workers) -> None:
    deaf = TRAINING.replace("test -e stop && rm stop && exit 143", ":")
    launcher = workers.start(0, options=(LIVE, "--grace=0.5"), program=deaf)

    launcher.terminate()

    assert launcher.wait(timeout=300) == 143
    assert re.fullmatch(
        r"distrain: stopped by SIGTERM; the ranks were ended by force, \d+ s after they were asked to stop",
        workers.bench.cause,
    )


def test_step_at_which_the_ranks_stopped_is_reported(workers: Workers) -> None:
    line = "stopped at step 1970 (31520 samples) after SIGTERM; resumes there"
    says = TRAINING.replace("rm stop && exit 143", f'rm stop && echo "{line}" && exit 143')
    launcher = workers.start(0, 1, program=says)
    workers.list(0)
    follow(launcher, "2 -> 1 workers after the ranks stopped at step 1970")
    follow(launcher, "training on 2")

    launcher.terminate()

    assert launcher.wait(timeout=300) == 143
    assert workers.bench.cause == "distrain: stopped by SIGTERM; the ranks stopped at step 1970"


def test_ranks_that_sigterm_ends_have_stopped_at_no_step(workers: Workers) -> None:
    banner = "mpirun noticed that process rank 0 with PID 12 on node run1-worker-0 exited on signal 15 (Terminated)."
    dies = TRAINING.replace("rm stop && exit 143", f'rm stop && echo "{banner}" && exit 143')
    launcher = workers.start(0, program=dies)

    launcher.terminate()

    assert launcher.wait(timeout=300) == 143
    assert workers.bench.cause == "distrain: stopped by SIGTERM; rank 0 was ended by signal 15"


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        pytest.param("echo distrain: cannot save; exit 5", "cannot save", id="named"),
        pytest.param("exit 5", "stopped by SIGTERM; mpirun ended with exit code 5", id="code"),
    ],
)
def test_ranks_that_fail_after_sigterm_have_a_cause(workers: Workers, end: str, cause: str) -> None:
    fails = TRAINING.replace("rm stop && exit 143", f"rm stop && {{ {end}; }}")
    launcher = workers.start(0, program=fails)

    launcher.terminate()

    assert launcher.wait(timeout=300) == 143
    assert workers.bench.cause == f"distrain: {cause}"


def test_sigterm_asks_for_a_stop_at_a_step_boundary(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    launcher.terminate()

    follow(launcher, ASKED + "SIGTERM")
    assert launcher.wait(timeout=300) == 143
    assert workers.bench.cause == "distrain: stopped by SIGTERM; the ranks stopped at a step boundary"
    assert sorted(workers.bench.told) == [f"{address(number)}: kill -HUP 1" for number in (0, 1)]


def test_training_that_finishes_while_it_is_stopped_is_finished(workers: Workers) -> None:
    deaf = TRAINING.replace("test -e stop && rm stop && exit 143", ":")
    launcher = workers.start(0, 1, program=deaf)
    launcher.terminate()
    follow(launcher, ASKED)

    workers.finish(launcher)

    assert workers.bench.cause == ""
