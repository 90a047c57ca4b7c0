"""Test the plan of an upgrade that suspends or resumes a job."""

from __future__ import annotations

import copy

import pytest
from msgspec.structs import replace

from distrain.progress.steps import Training
from distrain.release.plan import Before, Next, Plan, freed, lines, plan, refuse_traps
from distrain.workload.manifest import from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.objects import Object, mpi_job, mx_job, plain, pytorch_job

SAVED = {"checkpoint": {"uri": "s3://runs"}}
IN_PODS = {"checkpoint": {"uri": ""}}
COMMAND = {"command": ["train"]}
RAN = Training(steps=100, seconds=600, saved=90)

JOBS = {
    "mpijob-v2beta1": [mpi_job()],
    "mpijob-v1": [mpi_job(version="v1")],
    "pytorchjob": [pytorch_job(workers=2)],
    "mxjob": [mx_job(servers=1, workers=2)],
    "plain": plain(workers=2),
}


def suspended(objects: list[Object]) -> list[Object]:
    found = copy.deepcopy(objects)
    for item in found:
        if item["kind"] == "Job":
            item["spec"]["suspend"] = True
        elif "spec" in item and item["kind"].endswith("Job"):
            item["spec"].setdefault("runPolicy", {})["suspend"] = True
    return found


def planned(old: list[Object], new: list[Object], values: Object = SAVED) -> tuple[Plan, Before]:
    manifests = [yaml_writer.dump(*objects) for objects in (old, new)]
    was, will_be = (from_manifest(manifest, "run1") for manifest in manifests)
    before = Before(3, manifests[0], was, values, None, True, "--namespace team")
    return plan("run1", before, Next(manifests[1], will_be, values)), before


def told(found: Plan, before: Before) -> dict[str, str]:
    """Return the plan's lines about suspension and losses, keyed by their first word."""
    rows = [line.split(None, 1) for line in lines(found, before, has_trainer=not before.values.get("command"))]
    return {word: rest for word, rest in rows if word in ("suspended", "resumed", "lost")}


@pytest.mark.parametrize("kind", JOBS)
def test_running_job_of_each_kind_is_suspended_without_being_replaced(kind: str) -> None:
    found, before = planned(JOBS[kind], suspended(JOBS[kind]))

    refuse_traps(found, before)
    assert {change.effect for change in found.changes} == {"live"}
    assert (found.suspends, found.resumes, found.replaces, found.needs_room) == (True, False, False, False)


@pytest.mark.parametrize("kind", JOBS)
def test_suspended_job_of_each_kind_goes_on_and_needs_room(kind: str) -> None:
    found, before = planned(suspended(JOBS[kind]), JOBS[kind])

    refuse_traps(found, before)
    assert (found.suspends, found.resumes, found.replaces, found.needs_room) == (False, True, False, True)


def test_job_that_runs_on_is_neither_suspended_nor_resumed() -> None:
    found, before = planned([mpi_job(workers=2)], [mpi_job(workers=3)])

    assert (found.suspends, found.resumes, found.keeps_pods, found.needs_room) == (False, False, True, True)
    assert told(found, before) == {"lost": "nothing: the job goes on"}


@pytest.mark.parametrize(
    ("values", "lost"),
    [
        pytest.param(
            SAVED, "at most 10 steps: the job saves when it is stopped, and it goes on from there", id="saved"
        ),
        pytest.param(
            IN_PODS,
            "all 100 steps, 10 min of training: it trains from the start, because no checkpoint outlives its pods",
            id="checkpoints-in-the-pods",
        ),
        pytest.param(
            COMMAND,
            "what your command has not saved itself: 10 min of training since its pods' start",
            id="command",
        ),
    ],
)
def test_plan_says_what_a_suspended_job_loses(values: Object, lost: str) -> None:
    found, before = planned([mpi_job()], suspended([mpi_job()]), values)

    words = told(replace(found, lost=RAN), before)

    assert words == {"suspended": "the job's pods end, and it waits until job.suspend is false", "lost": lost}


@pytest.mark.parametrize(
    ("values", "goes_on"),
    [
        pytest.param(SAVED, "it goes on from the last checkpoint", id="saved"),
        pytest.param(IN_PODS, "it trains from the start, because no checkpoint outlives its pods", id="in-the-pods"),
        pytest.param(COMMAND, "it runs your command anew", id="command"),
    ],
)
def test_plan_says_from_where_a_job_goes_on(values: Object, goes_on: str) -> None:
    found, before = planned(suspended([mpi_job()]), [mpi_job()], values)

    words = told(found, before)

    resumed = f"the job's pods are created; {goes_on}"
    assert words == {"resumed": resumed, "lost": "nothing: a suspended job has no pods"}


def test_suspended_job_of_another_size_needs_no_room() -> None:
    found, before = planned(suspended([mpi_job(workers=2)]), suspended([mpi_job(workers=3)]))

    assert (found.resizes, found.needs_room, found.keeps_pods) == (True, False, False)
    assert told(found, before)["suspended"] == "the job still waits until job.suspend is false"


def test_suspended_job_that_is_replaced_frees_no_gpus() -> None:
    old, new = mpi_job(gpus=1), mpi_job(gpus=2)
    for job, content in ((old, "aaaaaaaa"), (new, "bbbbbbbb")):
        job["metadata"]["annotations"] = {"distrain/content": content}
    waits, before_waits = planned(suspended([old]), [new])
    runs, before_runs = planned([old], [new])

    assert (waits.replaces, runs.replaces) == (True, True)
    assert freed(waits, before_waits, "nvidia.com/gpu") == 0
    assert freed(runs, before_runs, "nvidia.com/gpu") > 0


def test_json_of_the_plan_has_both_words() -> None:
    found, _ = planned([mpi_job()], suspended([mpi_job()]))

    answer = found.as_dict()

    assert (answer["suspends"], answer["resumes"]) == (True, False)
