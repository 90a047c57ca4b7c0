"""Test `import` of a job that runs in the cluster. The new run is installed next to that job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import client
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace

POD_SECURITY = "baseline"
# A job as tutorials write it: the user is root, the command calls mpirun, and sshd listens on port 22.
JOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: tutorial, namespace: {namespace}}}
spec:
  slotsPerWorker: 1
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
            - name: mpi
              image: {image}
              command: [mpirun, -n, "2", --allow-run-as-root, --mca, plm_rsh_args, -o StrictHostKeyChecking=no]
              args: [sh, -c, "while :; do echo beat; sleep 1; done"]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: mpi
              image: {image}
              command: [sh, -c, mkdir -p /run/sshd && exec /usr/sbin/sshd -De -o StrictModes=no]
"""


@pytest.fixture
def tutorial(namespace: Namespace, own_image: str) -> Iterator[None]:
    """Start a job that Helm did not install."""
    client.apply(yaml.safe_load(JOB.format(namespace=namespace.name, image=own_image)))
    wait_until("the job's pods", lambda: len(_pods(namespace, "tutorial")) == 3, seconds=120, pause=1)
    wait_until("the job's ranks", lambda: _is_heard(namespace, "tutorial"), seconds=120, pause=1)
    yield
    client.kubectl("-n", namespace.name, "delete", "mpijob", "tutorial")


def _pods(namespace: Namespace, job: str) -> dict[str, str]:
    """Return a job's running pods: uid -> name."""
    found: list[dict[str, Any]] = namespace.get(f"pods -l training.kubeflow.org/job-name={job}")
    running = [pod["metadata"] for pod in found if pod["status"]["phase"] == "Running"]
    return {pod["uid"]: pod["name"] for pod in running}


def _is_heard(namespace: Namespace, job: str) -> bool:
    """Return whether both ranks of a job have printed a line to the launcher's log."""
    launchers = [name for name in _pods(namespace, job).values() if "-launcher-" in name]
    return any(namespace.log(name).count("beat") >= 2 for name in launchers)


def test_running_job_is_imported_and_its_values_run_beside_it(
    namespace: Namespace, tutorial: None, tmp_path: Path
) -> None:
    before, file = _pods(namespace, "tutorial"), str(tmp_path / "run.yaml")

    imported = namespace.distrain("import", "mpijob/tutorial", "-o", file)
    checked = namespace.distrain("check", "-f", file)
    planned = namespace.distrain("install", "run1", "-f", file, "--dry-run")
    installed = namespace.distrain("install", "run1", "-f", file)

    assert imported.returncode == 0, imported.stderr
    values = yaml.safe_load(Path(file).read_text())
    assert values["command"] == ["sh", "-c", "while :; do echo beat; sleep 1; done"]
    assert "status" not in Path(file).read_text()
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert planned.returncode == 0, planned.stderr
    created = {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(planned.stdout) if each}
    assert ("MPIJob", "run1") in created
    assert "tutorial" not in {name for _, name in created}
    assert installed.returncode == 0, installed.stderr
    wait_until("the new run's ranks", lambda: _is_heard(namespace, "run1"), seconds=120, pause=1)
    assert _pods(namespace, "tutorial") == before
