"""Simulate nodes and their pods with KWOK (sigs.k8s.io/kwok). KWOK only changes API objects, and runs no containers.

Training pods stay Running, and all show the same log. Pods that prepare a run, such as the pods of hooks, end at once
with exit code 0, because Helm waits for their end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from lab.builds import golang
from lab.cluster import components, faults, namespaces
from lab.cluster.client import kubectl
from lab.errors import LabError
from lab.paths import KUBECONFIG, STATE_DIR
from lab.waiting import wait_until

NAME = "kwok"
LABEL = {"type": NAME}
SELECTOR = f"type={NAME}"
GPUS = 8
OF_NODE = {"cpu": "96", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": f"{GPUS}"}
# KWOK recommends these stages, which are files of its folder kustomize/stage.
STAGES = (
    *("node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"),
    *("pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml"),
)
# By default, KWOK ends every pod of a Job. With this rule, KWOK ends only pods of the listed components.
OWNER, COMPONENT = ".metadata.ownerReferences.[].kind", '.metadata.labels["app.kubernetes.io/component"]'
ENDING = {"key": COMPONENT, "operator": "In", "values": ["keygen", "preflight", "replace"]}
NOT_READY = "node.kubernetes.io/not-ready:NoSchedule"
# Renewing the leases of 1,000 nodes would keep the API server busy. So KWOK renews them once an hour, and the
# controller-manager waits for hours before it marks a node as lost.
LEASE_SECONDS = 4 * 3600
GRACE, USUAL_GRACE = (f"--node-monitor-grace-period={time}" for time in ("5h", "50s"))
PORT = 10247


@contextmanager
def nodes(number: int, log: str) -> Iterator[None]:
    """Let KWOK simulate `number` nodes with GPUS GPUs each while the block runs. All pods on these nodes show this log.

    Meanwhile, the scheduler places no new pod on the lab's own node.
    """
    golang.build([NAME])
    try:
        faults.restart("kube-controller-manager", GRACE)
        _start(log)
        kubectl("create", "-f", "-", stdin=yaml.dump_all(map(_node, range(number)), Dumper=yaml.CSafeDumper))
        wait_until(f"{number} nodes", lambda: _ready() == number, seconds=600, pause=1)
        _untaint(number)
        kubectl("cordon", components.NODE)
        yield
    finally:
        kubectl("uncordon", components.NODE)
        # `kubectl delete` would delete the nodes one after the other.
        kubectl("delete", "--raw", f"/api/v1/nodes?labelSelector={quote(SELECTOR)}")
        _stop()
        faults.restart("kube-controller-manager", USUAL_GRACE)


def _start(log: str) -> None:
    config, lines = STATE_DIR / f"{NAME}.yaml", STATE_DIR / f"{NAME}-pods.log"
    # Container runtimes write logs in this format.
    written = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    lines.write_text("".join(f"{written} stdout F {line}\n" for line in log.splitlines()), encoding="utf-8")
    config.write_text(yaml.safe_dump_all([*_stages(), _logs(lines)]), encoding="utf-8")
    server = STATE_DIR / "pki" / "kubelet-server"
    namespaces.start(
        NAME,
        [
            golang.binary(NAME),
            f"--kubeconfig={KUBECONFIG}",
            f"--config={config}",
            f"--manage-nodes-with-label-selector={SELECTOR}",
            f"--node-lease-duration-seconds={LEASE_SECONDS}",
            f"--node-ip={namespaces.NODE_ADDRESS}",
            f"--node-port={PORT}",
            f"--tls-cert-file={server}.crt",
            f"--tls-private-key-file={server}.key",
        ],
    )


def _stop() -> None:
    if namespaces.is_running(NAME):
        os.kill(faults.started(NAME), signal.SIGTERM)
        wait_until(NAME, lambda: not namespaces.is_running(NAME))


def _stages() -> Iterator[dict[str, Any]]:
    folder = golang.module_dir(NAME, "sigs.k8s.io/kwok") / "kustomize" / "stage"
    for path in STAGES:
        stage = yaml.safe_load(Path(folder, path).read_text("utf-8"))
        if stage["metadata"]["name"] == "pod-complete":
            rules = stage["spec"]["selector"]["matchExpressions"]
            rules[:] = [*(each for each in rules if each["key"] != OWNER), ENDING]
        yield stage


def _logs(lines: Path) -> dict[str, Any]:
    spec = {"logs": [{"logsFile": str(lines)}]}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterLogs", "metadata": {"name": "pods"}, "spec": spec}


def _node(number: int) -> dict[str, Any]:
    name = f"{NAME}-{number:04}"
    labels = {**LABEL, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    status = {"allocatable": OF_NODE, "capacity": OF_NODE}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _untaint(number: int) -> None:
    """Remove the taint `not-ready` of new nodes. The controller-manager removes it from only four nodes per second."""
    with suppress(LabError):  # The controller-manager has already removed the taint of some nodes.
        kubectl("taint", "nodes", "-l", SELECTOR, f"{NOT_READY}-")
    wait_until(f"{number} nodes without taints", lambda: not _tainted(), seconds=600, pause=1)


def _tainted() -> str:
    return kubectl("get", "nodes", "-l", SELECTOR, "-o", "jsonpath={.items[*].spec.taints[*].key}")


def _ready() -> int:
    condition = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    return kubectl("get", "nodes", "-l", SELECTOR, "-o", f"jsonpath={condition}").count("True")
