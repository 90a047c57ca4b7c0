"""Provide small jobs, and import them without rendering the chart."""

from __future__ import annotations

import copy
from typing import Any

from distrain.imports.draft import Draft
from distrain.imports.identify import find_job
from distrain.imports.read import finished, read
from distrain.yaml import yaml_writer

FILE = "job.yaml"
Job = dict[str, Any]
MPIRUN = ["mpirun", "-np", "4", "python", "train.py"]


def accepting(values: dict[str, Any]) -> tuple[str, ...]:
    """Accept all values. This function replaces the chart in these tests."""
    return ()


def drafted(job: Job) -> Draft:
    draft = read(find_job(yaml_writer.dump(job), FILE), FILE)
    finished(draft, accepting, FILE)
    return draft


def mpi_job(
    launcher: Job | None = None, worker: Job | None = None, spec: Job | None = None, version: str = "v1"
) -> Job:
    """Return an MPIJob with a launcher and 2 workers.

    `launcher` and `worker` are additional fields of the containers of these roles. `spec` contains additional fields of
    the job's spec.
    """
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "job"},
        "spec": {
            **(spec or {}),
            "mpiReplicaSpecs": {
                "Launcher": _replica(1, {"command": MPIRUN, **(launcher or {})}),
                "Worker": _replica(2, worker or {}),
            },
        },
    }


def pytorch_job(container: Job | None = None, spec: Job | None = None, **roles: int) -> Job:
    """Return a PyTorchJob with these numbers of Masters and Workers.

    `container` has additional fields of each container, and `spec` has additional fields of the job's spec.
    """
    fields = {"name": "pytorch", "command": ["python", "train.py"], **(container or {})}
    specs = {role: _replica(number, fields) for role, number in (roles or {"Master": 1, "Worker": 2}).items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "job"},
        "spec": {**(spec or {}), "pytorchReplicaSpecs": specs},
    }


def _replica(number: int, fields: Job) -> Job:
    container = {"name": "mpi", "image": "a/b:1", **copy.deepcopy(fields)}
    return {"replicas": number, "template": {"spec": {"containers": [container]}}}


def pods(job: Job, role: str) -> Job:
    """Return the pod spec of a role. A change to the returned spec also changes the job."""
    [specs] = [value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs")]
    found: Job = specs[role]["template"]["spec"]
    return found
