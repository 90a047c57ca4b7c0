"""Test that `helm upgrade` changes the size of a run while the run trains, and that no step is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster import client
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    MXNET,
    RESUMED,
    STOPPED,
    TENSORFLOW,
    head,
    upgrade,
    wait_for_checkpoint,
    wait_for_step,
)


def _jobs(namespace: Namespace) -> list[str]:
    return [job["metadata"]["uid"] for job in namespace.get("mpijobs")]


@pytest.mark.parametrize(
    ("framework", "sizes"),
    [
        pytest.param(MXNET, (3,), id="mxnet"),
        pytest.param(MXNET, (3, 1), id="mxnet, and back", marks=pytest.mark.full),
        # test_runs.py runs the demo, which also rescales a run with TensorFlow.
        pytest.param(TENSORFLOW, (4, 1, 3), id="tensorflow", marks=pytest.mark.full),
    ],
)
def test_running_mpijob_goes_on_at_each_new_size_and_loses_no_step(
    namespace: Namespace, helm4: Path, on_s3: list[str], framework: dict[str, str], sizes: tuple[int, ...]
) -> None:
    upgrade(namespace, helm4, on_s3, {**framework, "workers.replicas": 2})
    wait_for_checkpoint(namespace)
    jobs = _jobs(namespace)

    for size in sizes:
        upgrade(namespace, helm4, on_s3, {**framework, "workers.replicas": size})
        wait_for_step(namespace, ranks=size)

    log = namespace.launcher_log()
    stopped, resumed = STOPPED.findall(log), RESUMED.findall(log)
    assert [found[2] for found in resumed] == [str(size) for size in sizes]
    assert stopped == [found[1] for found in resumed]
    assert _jobs(namespace) == jobs


@pytest.mark.full
def test_upgrade_that_changes_nothing_restarts_nothing(namespace: Namespace, helm4: Path, on_s3: list[str]) -> None:
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2})
    before = wait_for_checkpoint(namespace)

    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2})

    after = wait_for_checkpoint(namespace, before)
    assert after.generation == before.generation


@pytest.mark.full
def test_uninstalled_run_is_gone_and_its_checkpoints_are_kept(
    namespace: Namespace, helm4: Path, on_s3: list[str]
) -> None:
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2})
    before = wait_for_checkpoint(namespace)

    namespace.helm(helm4, "uninstall", "run1")

    all_of_it = ["-n", namespace.name, "get", "all", "-o", "name"]
    wait_until("the end of everything", lambda: not client.kubectl(*all_of_it), pause=1)
    kept = head(namespace)
    assert kept is not None
    assert kept.samples >= before.samples
