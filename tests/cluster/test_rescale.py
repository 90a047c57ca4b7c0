"""`helm upgrade` changes the size of a run while it trains, and nothing that it has learned is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import VALUES, Namespace, settings
from tests.cluster.training import LONG, RESUMED, STOPPED, head, wait_for_checkpoint

MPIJOB = {"framework": "tensorflow", "image.repository": "distrain/tensorflow", "workers.gpus": 0, **LONG}
# A default kubelet tells the launcher of new workers within this time.
GROWING = 240


def _upgrade(namespace: Namespace, helm: Path, on_s3: list[str], *more: str) -> None:
    arguments = ["-f", str(VALUES / "mnist.yaml"), *on_s3, *settings(MPIJOB), *more]
    done = namespace.helm(helm, "upgrade", "--install", "run1", str(CHART), *arguments)
    assert done.returncode == 0, done.stderr


def _jobs(namespace: Namespace) -> list[str]:
    return [job["metadata"]["name"] for job in namespace.get("mpijobs")]


def test_running_mpijob_goes_on_at_each_new_size_and_loses_no_step(
    namespace: Namespace, helm4: Path, on_s3: list[str]
) -> None:
    _upgrade(namespace, helm4, on_s3, "--set", "workers.replicas=2")
    wait_for_checkpoint(namespace)
    jobs, sizes = _jobs(namespace), (4, 1, 3)

    for size in sizes:
        _upgrade(namespace, helm4, on_s3, "--set", f"workers.replicas={size}")
        wait_until(
            f"{size} ranks",
            lambda size=size: [found[2] for found in RESUMED.findall(namespace.launcher_log())][-1:] == [str(size)],
            seconds=GROWING,
            pause=1,
        )

    log = namespace.launcher_log()
    stopped, resumed = STOPPED.findall(log), RESUMED.findall(log)
    assert [found[2] for found in resumed] == [str(size) for size in sizes]
    assert stopped == [found[1] for found in resumed]
    assert _jobs(namespace) == jobs


@pytest.mark.full
def test_upgrade_that_changes_nothing_restarts_nothing(namespace: Namespace, helm4: Path, on_s3: list[str]) -> None:
    _upgrade(namespace, helm4, on_s3, "--set", "workers.replicas=2")
    before = wait_for_checkpoint(namespace)

    _upgrade(namespace, helm4, on_s3, "--set", "workers.replicas=2")

    after = wait_for_checkpoint(namespace, before)
    assert after.generation == before.generation


@pytest.mark.full
def test_uninstalled_run_is_gone_and_its_checkpoints_are_kept(
    namespace: Namespace, helm4: Path, on_s3: list[str]
) -> None:
    _upgrade(namespace, helm4, on_s3, "--set", "workers.replicas=2")
    before = wait_for_checkpoint(namespace)

    namespace.helm(helm4, "uninstall", "run1")

    wait_until("the end of everything", lambda: not namespace.get("all"), seconds=60, pause=1)
    kept = head(namespace)
    assert kept is not None
    assert kept.samples >= before.samples
