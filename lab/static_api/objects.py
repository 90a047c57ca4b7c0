"""Generate the objects of a large cluster as an API server sends them: 5,000 nodes and 150,000 pods, 1.2 GB of JSON.

The objects are written once into the cache as chunks of an HTTP/1.1 body: one chunk per item, as in Kubernetes 1.33 and
later. The server then has almost nothing to do when it sends the objects. Pods are also written as protobuf.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.paths import CACHE_DIR
from lab.static_api import protobuf

NODES, GPU_NODES, PODS_PER_NODE = 5000, 64, 30
GPUS = 8
REQUESTS = [("500m", "1Gi"), ("1", "2Gi"), ("250m", "512Mi"), ("2", "4Gi"), ("100m", "128Mi")]
# The template of a pod contains these placeholders. The placeholders have the same lengths as the real values, because
# protobuf stores the length of each text.
INDEX, NODE_NAME, ADDRESS = "@IDX@", f"{'@NODE@':@<26}", f"{'@ADDRESS@':@<15}"

Object = dict[str, Any]


@dataclass(frozen=True)
class Items:
    """A file with one chunk per item, and the offset at which each chunk begins.

    The last offset is where the file ends.

    For each item, `sizes` has the total size of all earlier items, without the bytes that frame the chunks.
    """

    path: Path
    offsets: array[int]
    sizes: array[int]


def nodes() -> Items:
    """Return the nodes as JSON. Each object is followed by a comma."""
    return _stored("nodes", (_node(number) + b"," for number in range(NODES)))


def pods() -> Items:
    """Return the pods as JSON in the order of their nodes. Each object is followed by a comma."""
    return _stored("pods", (pod + b"," for pod in _pods(list(map(_json, _templates())))))


def pods_in_protobuf() -> Items:
    """Return the same pods as protobuf."""
    return _stored("pods.protobuf", _pods(protobuf.pods(_templates())))


def node_name(number: int) -> str:
    return f"node-{number:04}.example.internal"


def _stored(name: str, objects: Iterator[bytes]) -> Items:
    folder = CACHE_DIR / "many-objects" / _key()
    if not (folder / f"{name}.offsets").is_file():
        _discard_others(folder)
        _write(folder, name, objects)
    return Items(folder / name, _read(folder / f"{name}.offsets"), _read(folder / f"{name}.sizes"))


def _key() -> str:
    """Return a hash of everything from which the files are made.

    The files are made from the numbers of objects, a node with GPUs, a node without GPUs, and the pods' templates.
    """
    parts = [repr((NODES, GPU_NODES, PODS_PER_NODE)).encode(), _node(0), _node(GPU_NODES), *map(_json, _templates())]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _discard_others(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other)


def _write(folder: Path, name: str, objects: Iterator[bytes]) -> None:
    offsets, sizes = array("Q", [0]), array("Q", [0])
    with (folder / name).open("wb") as file:
        for body in objects:
            file.write(b"%x\r\n%s\r\n" % (len(body), body))
            offsets.append(file.tell())
            sizes.append(sizes[-1] + len(body))
    (folder / f"{name}.sizes").write_bytes(sizes.tobytes())
    (folder / f"{name}.offsets").write_bytes(offsets.tobytes())


def _read(path: Path) -> array[int]:
    numbers = array("Q")
    numbers.frombytes(path.read_bytes())
    return numbers


def _node(number: int) -> bytes:
    name, has_gpus = node_name(number), number < GPU_NODES
    amounts = {"cpu": "64", "memory": "263700084Ki", "ephemeral-storage": "263700084Ki", "hugepages-2Mi": "0"}
    amounts |= {"pods": "110", **({"nvidia.com/gpu": str(GPUS)} if has_gpus else {})}
    zone = {"topology.kubernetes.io/zone": f"zone-{number % 3}", "topology.kubernetes.io/region": "region"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **zone}
    labels |= {"node.kubernetes.io/instance-type": "large", "pool": "gpu" if has_gpus else "cpu"}
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if has_gpus else []
    ready = {"status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    times = {"lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [
        {"type": kind, **ready, **times} for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    registry = "registry.example.internal/team/application"
    images = [
        {"names": [f"{registry}-{image}@sha256:{image:064x}", f"{registry}-{image}:1.2.3"], "sizeBytes": 10**8 + image}
        for image in range(31)
    ]
    metadata = {
        "name": name,
        "uid": f"{number:08x}-0000-4000-8000-000000000000",
        "resourceVersion": str(1000 + number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
        "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": f'{{"csi":"{name}"}}'},
        "managedFields": [_managed("kubelet", labels), _managed("kube-controller-manager", amounts)],
    }
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images}
    return _json({"metadata": metadata, "spec": {"taints": taints} if taints else {}, "status": status})


def _pods(templates: list[bytes]) -> Iterator[bytes]:
    """Yield the pods of Deployments. Each pod is a copy of its Deployment's template, with a few values of its own."""
    for node in range(NODES):
        for number in range(PODS_PER_NODE):
            text = templates[(node + number) % len(templates)]
            for placeholder, value in (
                (INDEX, f"{node * PODS_PER_NODE + number:05x}"),
                (NODE_NAME, node_name(node)),
                (ADDRESS, f"fd00::{node:04x}:{number:04x}"),
            ):
                text = text.replace(placeholder.encode(), value.encode())
            yield text


def _templates() -> list[Object]:
    return [_template(variant) for variant in range(len(REQUESTS))]


def _template(variant: int) -> Object:
    app = f"service-{variant}"
    labels = {"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "pod-template-hash": "6c54b479"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{app}-6c54b479",
        "uid": "e009546b",
        "controller": True,
    }
    containers = [_container(app, *REQUESTS[variant]), _container("proxy", "100m", "128Mi")]
    metadata = {
        "name": f"{app}-6c54b479-{INDEX}",
        "generateName": f"{app}-6c54b479-",
        "namespace": f"team-{variant}",
        "uid": f"b7b3c5b3-f21a-4321-b912-0000000{INDEX}",
        "resourceVersion": f"10{INDEX}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
        "annotations": {"checksum/config": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"},
        "ownerReferences": [owner],
        "managedFields": [_managed("kube-controller-manager", _paths(containers)), _managed("kubelet", labels)],
    }
    projected = {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}], "defaultMode": 420}
    tolerations = [
        {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for state in ("not-ready", "unreachable")
    ]
    spec = {
        "volumes": [
            {"name": "config", "configMap": {"name": app, "defaultMode": 420}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "kube-api-access", "projected": projected},
        ],
        "containers": containers,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "nodeName": NODE_NAME,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "schedulerName": "default-scheduler",
        "tolerations": tolerations,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    times = {"lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", **times} for kind in kinds],
        "hostIP": "10.0.0.1",
        "podIP": ADDRESS,
        "podIPs": [{"ip": ADDRESS}],
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [_container_status(container) for container in containers],
        "qosClass": "Burstable",
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def _container(name: str, cpu: str, memory: str) -> Object:
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    secret = {"secretKeyRef": {"name": "database", "key": "password"}}
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    return {
        "name": name,
        "image": f"registry.example.internal/team/{name}:1.2.3",
        "command": [f"/usr/bin/{name}"],
        "args": ["--config=/etc/config/config.yaml", "--log-level=info", "--listen=:8080"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "NAMESPACE", "valueFrom": field}, {"name": "PASSWORD", "valueFrom": secret}]
        + [{"name": f"SETTING_{number}", "value": f"a value of some length {number}"} for number in range(7)],
        "resources": {"limits": {"memory": memory}, "requests": {"cpu": cpu, "memory": memory}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}, {"name": "scratch", "mountPath": "/tmp"}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _container_status(container: Object) -> Object:
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": container["image"],
        "imageID": f"{container['image']}@sha256:f89377017ed75f8d4fb83be99408c4fef9a1e3c07c4fac694ebe2fc6540feed4",
        "containerID": "containerd://7af9c93cdb8717a84634869803f59f3b061f8b5b4560577d71132ccde309d31d",
        "started": True,
        "allocatedResources": container["resources"]["requests"],
        "resources": container["resources"],
    }


def _managed(manager: str, fields: Object) -> Object:
    """Return an entry of managedFields. managedFields make up a third of most objects."""
    named = {f"f:{key}": _named(value) for key, value in fields.items()}
    head = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": named}}


def _named(value: Any) -> Object:
    return {f"f:{key}": _named(child) for key, child in value.items()} if isinstance(value, dict) else {}


def _paths(containers: list[Object]) -> Object:
    return {f'k:{{"name":"{container["name"]}"}}': container for container in containers}


def _json(value: Object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
