"""Test which losses the plan of an upgrade reports: the steps since the last checkpoint, and how long they took."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from distrain.check.gpus import Gpus
from distrain.progress.steps import Training, duration, last_steps, seconds_since
from distrain.release.plan import Before, Plan, freed, lines, plan
from tests.plugin.objects import Object, mpi_job
from tests.plugin.release.plan.planning import PODS_ALONE, S3, before_of, next_of, renamed


def _priced(lost: Training | None, before: Before, **values: Any) -> Plan:
    planned = plan("run1", before, next_of(renamed(mpi_job()), **values))
    cost = Gpus("nvidia.com/gpu", needed=8, free=8, total=16)
    return replace(planned, gpus=cost, freed=freed(planned, before, "nvidia.com/gpu"), lost=lost)


@pytest.mark.parametrize(
    ("lost", "old", "new", "words"),
    [
        pytest.param(
            Training(240, 600),
            PODS_ALONE,
            PODS_ALONE,
            "all 240 steps, 10 min of training: "
            "the new job trains from the start, because no checkpoint outlives its pods",
            id="no-uri",
        ),
        pytest.param(
            Training(None, 45),
            PODS_ALONE,
            S3,
            "all steps, of which the log tells none yet, 45 s of training: the new job trains from the start, because "
            "no checkpoint outlives its pods",
            id="no-step-yet",
        ),
        pytest.param(
            Training(240, 600, 200),
            S3,
            {**S3, "uri": "s3://others"},
            "all 240 steps, 10 min of training: the new job trains from the start, because checkpoint.uri changes",
            id="another-uri",
        ),
        pytest.param(
            Training(240, 600, 200),
            S3,
            {**S3, "resume": "never"},
            "all 240 steps, 10 min of training: the new job trains from the start, because checkpoint.resume is never",
            id="never",
        ),
        pytest.param(
            Training(240, 600, 200),
            S3,
            S3,
            "at most 40 steps: the job saves when it is stopped, and the new one goes on from there",
            id="checkpoint",
        ),
        pytest.param(
            Training(240, 600, 239),
            S3,
            S3,
            "at most 1 step: the job saves when it is stopped, and the new one goes on from there",
            id="one-step",
        ),
        pytest.param(
            Training(240, 600, 240),
            S3,
            S3,
            "no step: the job saves when it is stopped, and the new one goes on from there",
            id="all-saved",
        ),
        pytest.param(
            Training(240, 600),
            S3,
            S3,
            "at most 240 steps: the job saves when it is stopped, and the new one goes on from there",
            id="no-checkpoint-yet",
        ),
        pytest.param(
            Training(None, None),
            S3,
            S3,
            "at most the steps since the last checkpoint: the job saves when it is stopped, and the new one goes on "
            "from there",
            id="log-of-a-new-launcher",
        ),
    ],
)
def test_plan_says_what_is_lost(lost: Training, old: Object, new: Object, words: str) -> None:
    before = replace(before_of(mpi_job()), values={"checkpoint": old})

    told = list(lines(_priced(lost, before, checkpoint=new), before, has_trainer=True))

    assert told[0] == "run1: revision 3 -> 4"
    assert told[-2] == "  gpus      8 freed, 8 needed, 8 of 16 free for it (nvidia.com/gpu)"
    assert told[-1] == f"  lost      {words}"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"command": ["a"]}, {"command": ["b"]}, "what your command has not saved itself: 45 s of training since its"),
        ({"command": ["a"]}, {}, "what your command has not saved itself: 45 s of training since its pods' start"),
        ({}, {"command": ["b"]}, "all 9 steps, 45 s of training: the new job runs your command anew"),
    ],
)
def test_only_a_command_knows_what_of_it_is_lost(old: Object, new: Object, words: str) -> None:
    before = replace(before_of(mpi_job()), values={"checkpoint": S3, **old})

    priced = _priced(Training(9, 45, 8), before, checkpoint=S3, **new)
    told = list(lines(priced, before, has_trainer=not new))

    assert told[-1].startswith(f"  lost      {words}")


@pytest.mark.parametrize(
    ("checkpoint", "has_trainer", "words"),
    [
        (S3, True, "the new job goes on from the last checkpoint"),
        (PODS_ALONE, True, "the new job trains from the start, because no checkpoint outlives its pods"),
        ({**S3, "resume": "never"}, True, "the new job trains from the start, because checkpoint.resume is never"),
        (S3, False, "the new job runs your command anew"),
    ],
)
def test_finished_job_frees_and_loses_nothing(checkpoint: Object, has_trainer: bool, words: str) -> None:
    before = replace(before_of(mpi_job(), end="Failed"), values={"checkpoint": checkpoint})

    told = list(lines(_priced(None, before, checkpoint=checkpoint), before, has_trainer=has_trainer))

    assert told[-2].startswith("  gpus      0 freed")
    assert told[-1] == f"  lost      nothing that still runs: the job has failed; {words}"


def test_last_step_is_read_from_the_trainers_lines() -> None:
    log = (
        "TensorFlow: 2.16\n10\timages/sec: 813.1 +/- 4.6 (jitter = 29.8)\t7.593\n20\timages/sec: 814.0 +/- 1\t7\nbye\n"
    )

    assert last_steps(["", log]) == (20, None)
    assert last_steps(["total images/sec: 651.2\n"]) == (None, None)
    assert last_steps([f"{log}checkpoint: saved 3-640 at step 10 (640 samples), 0.8 s, next in 95 s\n"]) == (20, 10)
    assert last_steps(["resumed from 3-640: step 10, 640 samples, on 3 ranks (saved on 2)\n"]) == (None, 10)


@pytest.mark.parametrize(
    ("progress", "saved"),
    [
        ('{"step": 1000, "samples": 64000, "checkpoint": "1-62080", "checkpoint_samples": 62080}', 970),
        ('{"step": 1000, "samples": 63999, "checkpoint_samples": 62080}', 970),
        ('{"step": 1000, "samples": 64000, "checkpoint": null, "checkpoint_samples": null}', None),
        ('{"step": 1000}', None),
        ('{"step": "x"}', None),
        ("{", None),
    ],
)
def test_last_saved_step_of_a_long_log_is_read_from_the_line_for_programs(progress: str, saved: int | None) -> None:
    log = f"1000\timages/sec: 813.1 +/- 4.6 (jitter = 29.8)\t7.593\ndistrain-progress: {progress}\n"

    assert last_steps([log]) == (1000, saved)


def test_time_since_the_start_is_reported_in_its_largest_units() -> None:
    now = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)

    assert seconds_since("2026-01-01T11:58:00Z", now) == 120
    assert seconds_since(None, now) is None
    assert [duration(seconds) for seconds in (45, 120, 11100)] == ["45 s", "2 min", "3 h 5 min"]
