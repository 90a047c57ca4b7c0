"""Test when a job counts as training: once it has logged JSON lines, or once its ranks have run for some time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from distrain import kube
from distrain.progress.first_step import STEADY_SECONDS, Program, Steady, awaited, last_line, reached
from distrain.progress.start import JobState, Log
from distrain.workload.manifest import Job
from tests.plugin.objects import mpi_job, pytorch_job
from tests.plugin.progress.job_states import job_of, job_state, running_pod

JOB = job_of(mpi_job(workers=2))
TRAINER, COMMAND = Program(), Program(has_trainer=False)
PYTORCH = job_of(pytorch_job(workers=2))
ANSWER = "distrain-launch: all 2 workers answer: mpirun -np 8 python3 -m distrain_trainer\n"
STARTED_4, STARTED_6 = (
    f"distrain-launch: all 2 workers answer: /usr/bin/mpirun -np {n} python3 /t.py\n" for n in (4, 6)
)
WAITS = "distrain-launch: 10 s: waiting for 1 of 2 workers: run1-worker-1 (Connection refused)\n"
RESUMED = "resumed from 1-10: step 10, 80 samples, on 2 ranks (saved on 2)\n"
RESTART = "distrain-run: starting again (restart 1 of 10 in 3600 s): a reason\n"


def _line(step: int, **figures: Any) -> str:
    fields = msgspec.json.encode({"step": step, **figures}).decode()
    return f"{step}\timages/sec: 9.0\ndistrain-progress: {fields}\n"


def _state(*texts: str | None, role: str = "launcher") -> JobState:
    """Return a job with two running workers. If `role` is launcher, the job also has a launcher.

    The pods of `role` have logged these texts.
    """
    pods = [running_pod("worker"), running_pod("worker"), *([running_pod("launcher")] if role == "launcher" else [])]
    speaker = msgspec.convert(running_pod(role), kube.Pod)
    return replace(job_state(*pods), logs=[Log(speaker, text) for text in texts])


def _reached(state: JobState, job: Job = JOB, program: Program = TRAINER, *, after: float = 0.0) -> str:
    """Return the job's stage after it has been in this state for `after` seconds."""
    steady = Steady()
    reached(state, job, program, steady, 100.0)
    return reached(state, job, program, steady, 100.0 + after)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        pytest.param("", "", id="silent"),
        pytest.param(ANSWER, "", id="no-step"),
        pytest.param("1\timages/sec: 9.0\n", "", id="table-of-another-program"),
        pytest.param(ANSWER + _line(11, steps=90, world_size=8), "trains, at step 11 of 90", id="first-step"),
        pytest.param(_line(11) + _line(12), "trains, at step 12", id="step-alone"),
        pytest.param(RESUMED + _line(12, steps=90), "trains, at step 12 of 90, resumed from step 10", id="resumed"),
        pytest.param("distrain-progress: {}\n", "", id="no-line-of-ours"),
    ],
)
def test_trainer_trains_from_its_first_line_on(log: str, words: str) -> None:
    assert _reached(_state(log), after=600) == words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        pytest.param(_line(11, world_size=4), "", id="former-size"),
        pytest.param(_line(11, world_size=4) + _line(12, world_size=6), "trains, at step 12", id="new-size"),
        pytest.param(_line(11), "", id="size-not-told"),
        pytest.param(STARTED_4 + _line(11), "", id="former-size-of-the-launcher"),
        pytest.param(STARTED_4 + _line(11) + STARTED_6, "", id="ranks-have-started-at-the-new-size"),
        pytest.param(STARTED_4 + _line(11) + STARTED_6 + _line(12), "trains, at step 12", id="launcher-tells-it"),
    ],
)
@pytest.mark.parametrize("has_trainer", [True, False])
def test_rescaled_job_trains_from_its_first_line_at_the_new_size_on(log: str, words: str, *, has_trainer: bool) -> None:
    assert _reached(_state(log), JOB, Program(has_trainer, ranks=6)) == words


def test_rescaled_program_that_tells_no_size_trains_once_its_ranks_have_run_for_long() -> None:
    started = _state(_line(11), _line(12), role="worker")

    assert _reached(started, PYTORCH, Program(False, ranks=2), after=STEADY_SECONDS - 1) == ""
    assert _reached(started, PYTORCH, Program(False, ranks=2), after=STEADY_SECONDS) == "its ranks have run for 30 s"


def test_newest_line_counts_where_another_worker_has_become_rank_0() -> None:
    before, now = _line(90, world_size=4, unix_seconds=10), _line(95, world_size=8, unix_seconds=20)

    assert _reached(_state(before, now, role="worker"), PYTORCH) == "trains, at step 95"
    assert _reached(_state(now, before, role="worker"), PYTORCH) == "trains, at step 95"


def test_job_whose_pods_do_not_all_run_does_not_train() -> None:
    started = _state(_line(11))

    assert _reached(replace(started, pods=started.pods[:2])) == ""


def test_job_that_has_succeeded_already_is_told_so() -> None:
    assert _reached(job_state(condition="Succeeded")) == "has succeeded already"


@pytest.mark.parametrize(
    ("log", "after", "trains"),
    [
        pytest.param(ANSWER, STEADY_SECONDS, True, id="ranks-run"),
        pytest.param(ANSWER + "epoch 1\n", STEADY_SECONDS - 1, False, id="not-for-long"),
        pytest.param(WAITS, 600, False, id="launcher-waits"),
        pytest.param("", 600, False, id="launcher-has-not-started-mpirun"),
        pytest.param(_line(1), 0, True, id="own-line"),
    ],
)
def test_program_without_lines_trains_once_its_ranks_have_run_for_long(log: str, after: float, *, trains: bool) -> None:
    assert bool(_reached(_state(log), JOB, COMMAND, after=after)) == trains


def test_silent_program_without_a_launcher_trains_once_its_pods_have_run_for_long() -> None:
    words = _reached(_state("", "", role="worker"), PYTORCH, COMMAND, after=STEADY_SECONDS)

    assert words == "its ranks have run for 30 s"


def test_logs_that_may_not_be_read_leave_the_ranks_to_judge_by() -> None:
    assert _reached(_state(None), after=STEADY_SECONDS) == "its ranks have run for 30 s"


def test_restarted_program_or_container_has_not_run_for_long() -> None:
    steady, now = Steady(), 100.0
    again = running_pod("worker")
    again["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": "2026-01-01T00:00:25Z"}}
    log = [Log(msgspec.convert(running_pod("worker"), kube.Pod), RESTART)]
    states = [_state("", role="worker"), _state(RESTART, role="worker"), replace(job_state(again, again), logs=log)]

    told = [reached(state, PYTORCH, COMMAND, steady, now + 20 * index) for index, state in enumerate(states)]

    assert told == ["", "", ""]
    assert reached(states[2], PYTORCH, COMMAND, steady, now + 40 + STEADY_SECONDS)


def test_progress_tells_what_a_started_job_waits_for() -> None:
    assert awaited(_state(ANSWER), JOB) == "; no step yet"
    assert awaited(_state(ANSWER), JOB, ranks=6) == "; no step yet at the new size"
    waits = "; waiting for 1 of 2 workers: run1-worker-1 (Connection refused)"
    assert awaited(_state(ANSWER + WAITS), JOB) == waits
    assert awaited(_state(), JOB) == ""
    assert last_line(_state("", ANSWER + "loading\n\n")) == "loading"
