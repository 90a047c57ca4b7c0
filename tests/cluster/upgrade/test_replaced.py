"""Test that a new job resumes a run, or ends at once if the run is finished."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    GROWING,
    RESUMED,
    Head,
    head,
    upgrade,
    wait_for_checkpoint,
)

ANOTHER_VALUE = {"trainer.learningRate": 0.005}


def _jobs(namespace: Namespace) -> list[str]:
    return [job["metadata"]["uid"] for job in namespace.get("mpijobs")]


def _contents(namespace: Namespace) -> list[str]:
    return [job["metadata"]["annotations"]["distrain/content"] for job in namespace.get("mpijobs")]


def _wait_for_generation(namespace: Namespace, before: Head) -> Head:
    """Wait until the run was started again and has saved a checkpoint with more samples than before."""

    def has_begun() -> bool:
        found = head(namespace)
        return found is not None and found.generation > before.generation

    wait_until("another generation", has_begun, seconds=GROWING, pause=0.5)
    return wait_for_checkpoint(namespace, head(namespace))


def test_job_of_another_value_and_size_goes_on_and_so_does_the_first_after_a_rollback(
    namespace: Namespace, helm4: Path, on_s3: list[str]
) -> None:
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2})
    first, contents = wait_for_checkpoint(namespace), _contents(namespace)

    upgrade(namespace, helm4, on_s3, {"workers.replicas": 1, **ANOTHER_VALUE})
    second = _wait_for_generation(namespace, first)
    (resumed,) = RESUMED.findall(namespace.launcher_log())
    rolled_back = namespace.helm(helm4, "rollback", "run1", "1")
    third = _wait_for_generation(namespace, second)

    assert rolled_back.returncode == 0, rolled_back.stderr
    assert int(resumed[1]) >= first.samples
    assert resumed[2:] == ("1", "2")
    (resumed,) = RESUMED.findall(namespace.launcher_log())
    assert int(resumed[1]) >= second.samples
    assert resumed[2:] == ("2", "1")
    assert _contents(namespace) == contents
    # If the old job still trained, the generation in HEAD would change.
    assert wait_for_checkpoint(namespace, third).generation == third.generation


@pytest.mark.full
def test_rescale_before_the_first_step_trains_at_the_new_size(
    namespace: Namespace, helm4: Path, on_s3: list[str]
) -> None:
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2})
    wait_until("mpirun", lambda: "all 2 workers answer" in namespace.launcher_log(), pause=0.5)

    upgrade(namespace, helm4, on_s3, {"workers.replicas": 1})

    wait_for_checkpoint(namespace)
    # If a worker's pod is deleted before its rank runs, mpirun fails, and the launcher starts mpirun again.
    starts = re.findall(r"mpirun -np (\d+) ", namespace.launcher_log())
    assert (starts[0], starts[-1]) == ("2", "1")


@pytest.mark.full
def test_finished_run_is_not_run_again(namespace: Namespace, helm4: Path, on_s3: list[str]) -> None:
    short = {"trainer.epochs": 2}
    upgrade(namespace, helm4, on_s3, {**short, "workers.replicas": 2})
    assert namespace.wait_for_end(seconds=300) == "Succeeded"
    jobs, end = _jobs(namespace), head(namespace)
    assert end

    refused = namespace.distrain("rescale", "run1", "--workers", "3", "--yes")
    upgrade(namespace, helm4, on_s3, {**short, "workers.replicas": 3})
    assert _jobs(namespace) == jobs
    upgrade(namespace, helm4, on_s3, {**short, "workers.replicas": 3, **ANOTHER_VALUE})
    wait_until("the end of the first job", lambda: not set(jobs) & set(_jobs(namespace)), pause=0.5)

    assert "its job has succeeded already, and this upgrade does not run it again" in refused.stderr
    assert namespace.wait_for_end(seconds=300) == "Succeeded"
    assert "finished: s3://" in namespace.launcher_log()
    after = head(namespace)
    assert after
    assert (after.generation, after.samples, after.state) == (end.generation, end.samples, "finished")
