"""Check a job from a manifest against a cluster's objects, without an API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from distrain.check.cluster_state import ClusterState
from distrain.check.refusals import PreparedJob
from distrain.check.report import Report, report
from distrain.check.snapshot import snapshot_file
from distrain.check.text import summary
from distrain.workload.manifest import Job, from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.objects import Object, definition, mpi_job

Check = Callable[..., tuple[int, str, str]]

GPU = "nvidia.com/gpu"
GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"
NAMESPACE = "team"
OF_CHART = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
# At least one object of every kind that a check reads. A snapshot with these objects counts as complete.
ELSEWHERE = [
    {"kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"kubernetes.io/metadata.name": NAMESPACE}}},
    *map(definition, ("MPIJob", "PyTorchJob", "MXJob", "TFJob")),
    {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}},
    {"kind": "ResourceQuota", "metadata": {"name": "other", "namespace": "other"}},
    {"kind": "CSINode", "metadata": {"name": "other"}},
    {"kind": "CSIDriver", "metadata": {"name": "other"}},
    {"kind": "LimitRange", "metadata": {"name": "other", "namespace": "other"}},
    {"kind": "PriorityClass", "metadata": {"name": "system-node-critical"}, "value": 2_000_001_000},
]


def job_of(*documents: Object) -> Job:
    """Read a job from the documents of a manifest, which may come from any tool."""
    return from_manifest(yaml_writer.dump(*documents), "--manifest")


def chart_job(**fields: Any) -> Job:
    """Read an MPIJob as if the chart had rendered it."""
    return from_manifest(yaml_writer.dump(mpi_job(**fields)), "--chart")


def kind(name: str, *objects: Object) -> list[Object]:
    return [{**each, "kind": name} for each in objects]


def examined(
    job: Job, cluster: list[Object], running: list[Object], others: list[Object], release: str | None = None
) -> tuple[PreparedJob, ClusterState]:
    items = [*kind("Node", *cluster), *kind("Pod", *running), *ELSEWHERE, *others]
    found = snapshot_file.contents(json.dumps({"items": items}).encode())
    return snapshot_file.examined(found, job, NAMESPACE, GPU, release)


def check_snapshot(cluster: bytes, job: Job, namespace: str) -> Report:
    """Check the job against the objects in a snapshot."""
    return report(*snapshot_file.examined(snapshot_file.contents(cluster), job, namespace))


def said(report: Report, job: Job) -> str:
    """Return the text that `check` prints for users, joined into one line."""
    return " ".join(" ".join(summary(report, job)).split())


def judged(
    job: Job,
    cluster: list[Object],
    running: list[Object] | None = None,
    others: list[Object] | None = None,
    release: str | None = None,
) -> Report:
    """Check a job against a cluster with these nodes, running pods, and other objects.

    Each object in `others` must have the field `kind`.
    """
    return report(*examined(job, cluster, running or [], others or [], release))


def list_of(*items: Object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})
