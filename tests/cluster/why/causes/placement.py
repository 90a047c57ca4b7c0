"""Causes for which the scheduler finds no node for a pod."""

from __future__ import annotations

from tests.cluster.why.case import IMAGE, Case, Said
from tests.cluster.why.stages import (
    claim,
    cordoned_node,
    full_node,
    tainted_node,
    volume,
    with_cluster_objects,
    with_objects,
)

SMALLER = "make the run smaller with `helm distrain rescale run1 --workers N --namespace team`"
WORKER = "run1-worker-0"
NODES = "0/1 nodes are available"
MOUNTS_DATA = volume({"persistentVolumeClaim": {"claimName": "data"}})
SIDECAR = {
    "name": "exporter",
    "image": f"{IMAGE}:0.1.0",
    "command": ["sleep", "3600"],
    "ports": [{"containerPort": 9400, "hostPort": 9400}],
}
SAME_JOB = {"matchLabels": {"app.kubernetes.io/instance": "run1", "app.kubernetes.io/component": "worker"}}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": SAME_JOB, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
UNBOUND = "create a volume for it, or give the claim a storageClassName that makes one"


def _volume_elsewhere(namespace: str) -> dict[str, object]:
    elsewhere = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["elsewhere"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-data"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "",
            "hostPath": {"path": "/tmp"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}},
            "claimRef": {"name": "data", "namespace": namespace},
        },
    }


def _late_class(namespace: str) -> dict[str, object]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": f"{namespace}-late"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


CASES = (
    Case(
        "no node has so many GPUs",
        Said(
            "Pending",
            f"{WORKER}: no node is large enough: {NODES}: 1 Insufficient nvidia.com/gpu",
            "lower workers.gpus, or add a node that has so much nvidia.com/gpu",
        ),
        {"workers.gpus": 16},
    ),
    Case(
        "no GPU is free",
        Said(
            "Pending",
            f"{WORKER}: {NODES}: 1 Insufficient nvidia.com/gpu",
            f"free nvidia.com/gpu, or {SMALLER}",
        ),
        {"workers.gpus": 1},
        stage=full_node,
        disturbs=True,
    ),
    Case(
        "no node offers this kind of GPU",
        Said(
            "Pending",
            f"{WORKER}: no node is large enough: {NODES}: 1 Insufficient amd.com/gpu",
            "lower workers.gpus, or add a node that has so much amd.com/gpu",
        ),
        {"workers.gpus": 1, "workers.gpuResource": "amd.com/gpu"},
    ),
    Case(
        "no node has so many CPUs",
        Said(
            "Pending",
            f"{WORKER}: no node is large enough: {NODES}: 1 Insufficient cpu",
            "lower workers.cpu, or add a node that has so much cpu",
        ),
        {"workers.cpu": 1000},
    ),
    Case(
        "no node has so much memory",
        Said(
            "Pending",
            f"{WORKER}: no node is large enough: {NODES}: 1 Insufficient memory",
            "lower workers.memory, or add a node that has so much memory",
        ),
        {"workers.memory": "90Ti"},
    ),
    Case(
        "taint",
        Said(
            "Pending",
            f"run1-launcher-x7k2p: {NODES}: 1 node(s) had untolerated taint(s) (and 1 more pod)",
            "`kubectl describe nodes` shows the taints: tolerate them with launcher.tolerations, or remove them",
        ),
        stage=tainted_node,
        disturbs=True,
    ),
    Case(
        "cordoned node",
        Said(
            "Pending",
            f"run1-launcher-x7k2p: {NODES}: 1 node(s) were unschedulable (and 1 more pod)",
            "wait, or let the nodes take pods again with `kubectl uncordon NODE`",
        ),
        stage=cordoned_node,
        disturbs=True,
    ),
    Case(
        "node selector",
        Said(
            "Pending",
            f"{WORKER}: {NODES}: 1 node(s) didn't match Pod's node affinity/selector",
            "correct workers.nodeSelector or workers.affinity, or give the nodes these labels",
        ),
        {"workers.nodeSelector.gpu": "h100"},
    ),
    Case(
        "affinity",
        Said(
            "Pending",
            f"run1-worker-1: {NODES}: 1 node(s) didn't match pod anti-affinity rules",
            "correct workers.affinity or workers.topology, or add nodes",
        ),
        {"workers.replicas": 2, "workers.affinity": APART},
    ),
    Case(
        "host port in use",
        Said(
            "Pending",
            f"run1-worker-1: {NODES}: 1 node(s) didn't have free ports for the requested pod ports",
            "give the pods another port, or more nodes: a port serves one pod of a node",
        ),
        {"workers.replicas": 2, "workers.sidecars": [SIDECAR], "podSecurity": "privileged"},
        pod_security="privileged",
    ),
    Case(
        "scheduler does not run",
        Said(
            "Pending",
            f"{WORKER}: the scheduler nobody has not looked at the pod",
            "wait; if this lasts, start nobody, or name another scheduler in the values",
        ),
        {"workers.podSpec.schedulerName": "nobody"},
    ),
    Case(
        "claim missing",
        Said(
            "Pending",
            f'{WORKER}: {NODES}: persistentvolumeclaim "data" not found',
            "create the claim in this namespace, or correct claimName in volumes",
        ),
        MOUNTS_DATA,
    ),
    Case(
        "claim without a storage class",
        Said(
            "Pending",
            f"{WORKER}: the PersistentVolumeClaim data is not bound: "
            "no persistent volumes available for this claim and no storage class is set",
            UNBOUND,
        ),
        MOUNTS_DATA,
        stage=with_objects(claim("data")),
    ),
    Case(
        "storage class missing",
        Said(
            "Pending",
            f'{WORKER}: the PersistentVolumeClaim data is not bound: storageclass.storage.k8s.io "fast" not found',
            UNBOUND,
        ),
        MOUNTS_DATA,
        stage=with_objects(claim("data", storageClassName="fast")),
    ),
    Case(
        "no volume for a claim that waits for its pod",
        Said(
            "Pending",
            f"{WORKER}: {NODES}: 1 node(s) didn't find available persistent volumes to bind",
            "create a volume that the claim can bind, or correct its storageClassName",
        ),
        MOUNTS_DATA,
        stage=with_cluster_objects(
            _late_class, lambda namespace: claim("data", storageClassName=f"{namespace}-late")(namespace)
        ),
    ),
    Case(
        "volume in another zone",
        Said(
            "Pending",
            f"{WORKER}: {NODES}: 1 node(s) didn't match PersistentVolume's node affinity",
            "the volume is in another zone than the nodes: move it, or place the pods with workers.nodeSelector",
        ),
        MOUNTS_DATA,
        stage=with_cluster_objects(
            _volume_elsewhere,
            lambda namespace: claim("data", storageClassName="", volumeName=f"{namespace}-data")(namespace),
        ),
    ),
)
