"""Kubernetes objects as the API server writes them, with only what a test is about."""

from __future__ import annotations

from typing import Any

import msgspec

from distrain import kube

Object = dict[str, Any]


def node(name: str, *, labels: dict[str, str] | None = None, cordoned: bool = False, **allocatable: str) -> Object:
    """A node with 110 pod slots; `gpu=8` stands for nvidia.com/gpu."""
    gpus = {"nvidia.com/gpu": allocatable.pop("gpu")} if "gpu" in allocatable else {}
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", **allocatable, **gpus}
    spec = {"unschedulable": True} if cordoned else {}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": {"allocatable": amounts}}


def tainted(base: Object, *taints: str) -> Object:
    """The node with taints, written as key=value:effect or key:effect."""
    parsed = []
    for taint in taints:
        pair, _, effect = taint.rpartition(":")
        key, _, value = pair.partition("=")
        parsed.append({"key": key, "value": value, "effect": effect})
    return {**base, "spec": {**base["spec"], "taints": parsed}}


def pod(name: str, *, on: str = "", phase: str = "Running", owner: str = "", gpu: str = "0", **requests: str) -> Object:
    """A pod of one container, on the node `on` or waiting for one."""
    owners = [{"kind": owner, "name": "owner", "uid": "1"}] if owner else []
    resources = {"requests": {"nvidia.com/gpu": gpu, **requests}}
    spec = {"nodeName": on, "containers": [{"name": "main", "resources": resources}]}
    metadata = {"name": name, "namespace": "team", "ownerReferences": owners}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def mpi_job(*, workers: int = 2, gpus: int = 4, worker: Object | None = None, launcher: Object | None = None) -> Object:
    """An MPIJob; `worker` and `launcher` are merged into the specs of their pods."""
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    small = {"requests": {"cpu": "100m", "memory": "512Mi"}}
    specs = {
        "Launcher": {"replicas": 1, "template": {"spec": _spec("launcher", small, launcher)}},
        "Worker": {"replicas": workers, "template": {"spec": _spec("worker", limits, worker)}},
    }
    spec = {"mpiReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "run1-1234abcd"}, "spec": spec}


def nodes(*objects: Object) -> list[kube.Node]:
    return msgspec.convert(list(objects), list[kube.Node])


def pods(*objects: Object) -> list[kube.Pod]:
    return msgspec.convert(list(objects), list[kube.Pod])


def _spec(name: str, resources: Object, more: Object | None) -> Object:
    return {"containers": [{"name": name, "resources": resources}], **(more or {})}
