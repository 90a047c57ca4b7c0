"""Create Kubernetes objects as the API server returns them, with only the fields that tests need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from distrain import kube
from distrain.pods.pods_json import JsonPod

Object = dict[str, Any]
JOB = "run1-1234abcd"


def node(
    name: str,
    more: Mapping[str, str] | None = None,
    *,
    labels: dict[str, str] | None = None,
    cordoned: bool = False,
    **allocatable: str,
) -> Object:
    """Return a node with 110 pod slots.

    `gpu` is the number of nvidia.com/gpu. `more` contains other resources by their full names.
    """
    gpus = {"nvidia.com/gpu": allocatable.pop("gpu")} if "gpu" in allocatable else {}
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", **(more or {}), **allocatable, **gpus}
    spec = {"unschedulable": True} if cordoned else {}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": {"allocatable": amounts}}


def tainted(base: Object, *taints: str) -> Object:
    """Return the node with taints, each written as key=value:effect or key:effect."""
    parsed = []
    for taint in taints:
        pair, _, effect = taint.rpartition(":")
        key, _, value = pair.partition("=")
        parsed.append({"key": key, "value": value, "effect": effect})
    return {**base, "spec": {**base["spec"], "taints": parsed}}


def pod(name: str, *, on: str = "", phase: str = "Running", owner: str = "", gpu: str = "0", **requests: str) -> Object:
    """Return a pod with one container. The pod is on the node `on`, or waits for a node if `on` is empty."""
    owners = [{"kind": owner, "name": "owner", "uid": "1"}] if owner else []
    resources = {"requests": {"nvidia.com/gpu": gpu, **requests}}
    spec = {"nodeName": on, "containers": [{"name": "main", "resources": resources}]}
    metadata = {"name": name, "namespace": "team", "ownerReferences": owners}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def mpi_job(
    *,
    workers: int = 2,
    gpus: int = 4,
    worker: Object | None = None,
    launcher: Object | None = None,
    version: str = "v2beta1",
) -> Object:
    """Return an MPIJob. `worker` and `launcher` are maps that are merged into the pod specs of these roles."""
    small = {"requests": {"cpu": "100m", "memory": "512Mi"}}
    replicas = {
        "Launcher": {"replicas": 1, "template": template("launcher", small, launcher)},
        "Worker": {"replicas": workers, "template": template("worker", _gpus(gpus), worker)},
    }
    return kubeflow("MPIJob", version, mpiReplicaSpecs=replicas)


def pytorch_job(*, workers: int, gpus: int = 4, master: bool = False) -> Object:
    """Return a PyTorchJob with `workers` ranks. With `master`, one of these ranks is the Master."""
    replicas = {
        "Worker": {"replicas": workers - master, "template": template("worker", _gpus(gpus), container="pytorch")}
    }
    if master:
        replicas["Master"] = {"replicas": 1, "template": template("master", _gpus(gpus), container="pytorch")}
    return kubeflow("PyTorchJob", "v1", pytorchReplicaSpecs=replicas)


def mx_job(*, servers: int, workers: int, gpus: int = 4, server_cpu: str = "1", version: str = "v1") -> Object:
    replicas = {
        "Scheduler": {
            "replicas": 1,
            "template": template("scheduler", {"requests": {"cpu": "100m"}}, container="mxnet"),
        },
        "Server": {
            "replicas": servers,
            "template": template("server", {"requests": {"cpu": server_cpu}}, container="mxnet"),
        },
        "Worker": {"replicas": workers, "template": template("worker", _gpus(gpus), container="mxnet")},
    }
    return kubeflow("MXJob", version, jobMode="MXTrain", mxReplicaSpecs=replicas)


def tf_job(*, servers: int, workers: int, gpus: int = 4) -> Object:
    replicas = {
        "Chief": {
            "template": template("chief", {"requests": {"cpu": "100m", "memory": "2Gi"}}, container="tensorflow")
        },
        # The chart labels the pods of the role PS with `server`, because their section of the values is `servers`.
        "PS": {"replicas": servers, "template": template("server", {"requests": {"cpu": "1"}}, container="tensorflow")},
        "Worker": {"replicas": workers, "template": template("worker", _gpus(gpus), container="tensorflow")},
    }
    return kubeflow("TFJob", "v1", tfReplicaSpecs=replicas)


def plain(*, workers: int, gpus: int = 4) -> list[Object]:
    """Return the objects that the chart renders for job.kind Plain."""
    small = {"requests": {"cpu": "100m"}}
    indexed = {"completionMode": "Indexed", "completions": workers, "parallelism": workers}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": JOB}},
        batch_job(f"{JOB}-keygen", template("keygen", {"requests": {"cpu": "50m"}})),
        batch_job(f"{JOB}-worker", template("worker", _gpus(gpus)), **indexed),
        batch_job(f"{JOB}-launcher", template("launcher", small)),
    ]


def kubeflow(kind: str, version: str, **spec: Any) -> Object:
    return {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": {"name": JOB}, "spec": spec}


def batch_job(name: str, pods: Object, **spec: Any) -> Object:
    pods = {**pods, "spec": {"restartPolicy": "Never", **pods["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {**spec, "template": pods}}


def template(role: str, resources: Object, more: Object | None = None, *, container: str = "") -> Object:
    """Return a pod template with distrain's labels. `more` is merged into the pod's spec.

    `container` is the name of the pod's container. The default is the name of the role.
    """
    names = {"name": "distrain", "instance": "run1", "component": role}
    labels = {f"app.kubernetes.io/{key}": value for key, value in names.items()}
    spec = {"containers": [{"name": container or role, "resources": resources}], **(more or {})}
    return {"metadata": {"labels": labels}, "spec": with_images(spec)}


def with_images(spec: Object) -> Object:
    """Return the pod spec with an image in each container, because the API server requires an image."""
    lists = {key: spec[key] for key in ("containers", "initContainers") if spec.get(key)}
    return {**spec, **{key: [{"image": "busybox", **item} for item in items] for key, items in lists.items()}}


def of_another_tool(job: Object) -> Object:
    """Return the job without distrain's labels, as if another tool had created it."""
    bare: Object = json.loads(json.dumps(job).replace("app.kubernetes.io/", "example.org/"))
    return bare


def deployment(name: str, image: str, *, ready: int = 1) -> Object:
    """Return a Deployment in the namespace `system`."""
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    return {"metadata": {"name": name, "namespace": "system"}, "spec": spec, "status": {"readyReplicas": ready}}


def namespace(name: str, level: str = "") -> Object:
    """Return a namespace, with or without an enforced Pod Security level."""
    labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
    return {"metadata": {"name": name, "labels": labels}}


def definition(kind: str, *versions: str) -> Object:
    """Return a CustomResourceDefinition of Kubeflow.

    By default, it serves those versions for which the chart renders jobs.
    """
    served = [{"name": name, "served": True} for name in versions or ("v1", "v2beta1")]
    spec = {"group": "kubeflow.org", "names": {"kind": kind}, "versions": served}
    metadata = {"name": f"{kind.lower()}s.kubeflow.org"}
    return {"kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def _gpus(number: int) -> Object:
    return {"limits": {"nvidia.com/gpu": number}} if number else {}


def nodes(*objects: Object) -> list[kube.Node]:
    return msgspec.convert(list(objects), list[kube.Node])


def pods(*objects: Object) -> list[JsonPod]:
    return msgspec.json.decode(msgspec.json.encode(objects), type=list[JsonPod])
