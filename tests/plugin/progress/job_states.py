"""Build a JobState for the tests of how a job starts. A JobState describes a job at one moment."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from distrain import kube
from distrain.progress.start import JobState
from distrain.workload.manifest import Job, from_manifest
from tests.plugin.objects import Object, mpi_job

RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
IMAGE = "distrain/nope:1"


def job_of(*documents: Object) -> Job:
    return from_manifest(yaml.safe_dump_all(documents), "--chart")


MPI = job_of(mpi_job(workers=1))


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def ended(code: int, message: str) -> dict[str, Any]:
    return {"exitCode": code, "message": message, "reason": "Error"}


def job_pod(role: str, container: dict[str, Any], *, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    name = "run1-launcher-x" if role == "launcher" else f"run1-{role}-0"
    metadata = {"name": name, "namespace": "team", "uid": name, "labels": {"app.kubernetes.io/component": role}}
    spec = {"containers": [{"name": role, "image": IMAGE}]}
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "containerStatuses": [{"name": role, **container}], **status},
    }


def running_pod(role: str) -> dict[str, Any]:
    return job_pod(role, RUNNING, phase="Running")


def unplaced_pod(role: str, words: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    return {**job_pod(role, {}), "status": {"phase": "Pending", "conditions": [condition]}}


def warning(uid: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": "Warning", "reason": reason, "message": message, "involvedObject": {"uid": uid}}


def job_state(*pods: dict[str, Any], condition: str = "", message: str = "", events: Any = ()) -> JobState:
    conditions = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "False"}]
    if condition:
        conditions.append({"type": condition, "status": "True", "message": message})
    job = {"metadata": {"name": "run1", "uid": "job"}, "status": {"conditions": conditions}}
    return JobState(
        [msgspec.convert(job, kube.Workload)],
        msgspec.convert(list(pods), list[kube.Pod]),
        msgspec.convert(list(events), list[kube.Event]),
    )
