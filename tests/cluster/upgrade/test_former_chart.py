"""Test an upgrade from chart 0.1.0, whose job names contained a hash, to the current chart."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace, settings
from tests.cluster.training import MPIJOB, RESUMED, head, upgrade, wait_for_checkpoint, wait_for_restart

COMMIT = "f6afcd5"
SIZE = {"workers.replicas": 1}


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """Return the folder with chart 0.1.0 and its values files."""
    packed = subprocess.run(
        ["git", "archive", COMMIT, "charts", "values"], cwd=REPOSITORY, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def _names(namespace: Namespace) -> list[str]:
    return [job["metadata"]["name"] for job in namespace.get("mpijobs")]


@pytest.mark.full  # The old chart comes from the git history, which a checkout may lack.
def test_upgrade_replaces_the_job_once_and_it_goes_on_from_its_checkpoint(
    namespace: Namespace, helm4: Path, on_s3: list[str], former: Path
) -> None:
    arguments = ["-f", str(former / "values/mnist.yaml"), *on_s3, *settings({**MPIJOB, **SIZE})]
    installed = namespace.helm(helm4, "install", "run1", str(former / "charts/distrain"), *arguments)
    assert installed.returncode == 0, installed.stderr
    before, (name,) = wait_for_checkpoint(namespace), _names(namespace)
    assert name.startswith("run1-")

    upgrade(namespace, helm4, on_s3, SIZE)

    wait_for_restart(namespace, before)
    wait_until("the former job's end", lambda: _names(namespace) == ["run1"], seconds=120)
    (resumed,) = RESUMED.findall(namespace.launcher_log())
    assert int(resumed[1]) >= before.samples
    uids = {job["metadata"]["uid"] for job in namespace.get("mpijobs")}
    again = head(namespace)
    upgrade(namespace, helm4, on_s3, SIZE)
    wait_for_checkpoint(namespace, again)
    assert {job["metadata"]["uid"] for job in namespace.get("mpijobs")} == uids
