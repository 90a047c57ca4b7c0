"""Start and describe the embedded Kubernetes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab.builds import golang, images
from lab.builds.golang import binary
from lab.cluster import components, host, namespaces, operators
from lab.cluster.client import apply, kubectl, load_image
from lab.cluster.namespaces import NODE_ADDRESS
from lab.cluster.operators import Operators
from lab.cluster.teardown import lock
from lab.errors import LabError
from lab.paths import CACHE_DIR, LOG_DIR, STATE_DIR
from lab.s3.server import Server
from lab.waiting import wait_for_port, wait_until

S3_PORT = 7070
S3_KEYS = STATE_DIR / "s3.json"
BIN_DIR = STATE_DIR / "bin"
MANIFEST = Path(__file__).parent / "roles.yaml"

FAILED_LOG_DIR = CACHE_DIR / "logs" / "failed-start"

_READY = STATE_DIR / "ready"


def up(chosen: Operators = operators.DEFAULT) -> None:
    """Start the cluster with these operators, unless a cluster already runs.

    Raises LabError. If the start fails or is interrupted, remove everything that it has created.
    """
    if is_ready():
        return
    host.check_root()
    with lock():
        shutil.rmtree(FAILED_LOG_DIR, ignore_errors=True)
        namespaces.destroy()  # remove what a killed start has left behind
        host.check()
        with _step("programs"):
            golang.build([*golang.CLUSTER, *operators.programs(chosen)])
        try:
            _start(chosen)
        except BaseException:
            _undo_start()
            raise


def is_ready() -> bool:
    """Return whether the cluster has started completely and every component is alive."""
    return (
        _READY.exists()
        and namespaces.exists()
        and all(map(namespaces.is_running, (*components.COMPONENTS, "versitygw")))
    )


def status() -> list[tuple[str, str]]:
    if not namespaces.exists():
        return [("cluster", "not running; `make cluster` starts it")]
    parts = [*components.COMPONENTS, "versitygw"]
    states = [
        (name, "running" if namespaces.is_running(name) else f"ended; see {LOG_DIR / name}.log") for name in parts
    ]
    if is_ready():
        states += [("node", _node_summary())]
        states += [(name, operators.status(name)) for name in ("mpi-operator", "training-operator")]
    return states


def s3_server() -> Server:
    return Server.load(S3_KEYS)


def prepare_namespace(name: str, s3_secret: str, pod_security: str = "restricted") -> None:
    """Create a namespace that enforces a Pod Security Standard. A Secret in it contains the keys of the S3 server."""
    labels = {"pod-security.kubernetes.io/enforce": pod_security}
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    server = s3_server()
    put_s3_secret(name, s3_secret, server.access_key, server.secret_key)
    # A moment later, Kubernetes itself creates these two objects in a new namespace.
    for made in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
        kubectl("-n", name, "wait", "--for=create", made, "--timeout=180s")


def put_s3_secret(namespace: str, name: str, access_key: str, secret_key: str) -> None:
    """Create a Secret with S3 keys, for the value s3.secretName."""
    keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
    metadata = {"name": name, "namespace": namespace}
    apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys})


def _start(chosen: Operators) -> None:
    with _step("namespaces and certificates"):
        namespaces.create()
        keys = components.credentials()
        _link_tools()
    with _step("etcd and containerd"):
        _launch("etcd", keys)
        _launch("containerd", keys)
    with _step("kube-apiserver"):
        _launch("kube-apiserver", keys)
        wait_until("kube-apiserver", lambda: _serves("kube-apiserver", "/readyz"), pause=0.2)
    with _step("controllers, proxy, DNS, S3"):
        for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns"):
            _launch(name, keys)
        _start_s3()
    with _step("kubelet"):
        wait_until("containerd", components.CONTAINERD_SOCKET.exists)
        load_image(images.scratch_image(components.PAUSE_IMAGE, {"pause": binary("pause")}, ["/pause"]))
        _launch("kubelet", keys)
        apply(*yaml.safe_load_all(MANIFEST.read_text()))
        _launch("gpus", keys)
        wait_until("the node", _node_is_ready, pause=0.2)
        wait_until("the node's GPUs", has_gpus, pause=0.2)
    with _step("operators"):
        operators.install(chosen)
    _READY.touch()


def _undo_start() -> None:
    try:
        shutil.copytree(LOG_DIR, FAILED_LOG_DIR)
        logs = f"its logs are in {FAILED_LOG_DIR}"
    except (OSError, shutil.Error) as error:  # If the disk is full, the logs cannot be copied.
        logs = f"its logs could not be kept: {error}"
    try:
        namespaces.destroy()
        print(f"\n  the start was undone; {logs}")
    except (LabError, OSError) as error:  # The caller reports why the start failed, which matters more than this error.
        print(f"\n  the start could not be undone: {error}; {logs}")


def _launch(name: str, keys: components.Credentials) -> None:
    namespaces.start(name, components.COMPONENTS[name](keys))


def _start_s3() -> None:
    server = Server.new(f"{NODE_ADDRESS}:{S3_PORT}")
    server.save(S3_KEYS)
    namespaces.start("versitygw", server.command(STATE_DIR / "s3"), server.environment())
    wait_for_port(NODE_ADDRESS, S3_PORT)


def _node_is_ready() -> bool:
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    conditions = [condition for node in nodes for condition in node["status"].get("conditions", [])]
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def has_gpus() -> bool:
    """Return whether the node offers the fake GPUs."""
    return _allocatable_gpus() == str(components.GPUS)


def _allocatable_gpus() -> str:
    return str(_node_status()["allocatable"].get("nvidia.com/gpu", "0"))


def _node_status() -> dict[str, Any]:
    status: dict[str, Any] = json.loads(kubectl("get", "node", components.NODE, "-o", "json"))["status"]
    return status


def _node_summary() -> str:
    return f"Kubernetes {_node_status()['nodeInfo']['kubeletVersion']}, {_allocatable_gpus()} nvidia.com/gpu"


def _serves(name: str, path: str) -> bool:
    if not namespaces.is_running(name):
        raise LabError(f"{name} ended: {namespaces.last_words(name)}")
    try:
        kubectl("get", "--raw", path)
    except LabError:
        return False
    return True


def _link_tools() -> None:
    BIN_DIR.mkdir()
    for link, program in {"kubectl": "kubectl", "helm": "helm4"}.items():
        (BIN_DIR / link).symlink_to(binary(program))


@contextmanager
def _step(name: str) -> Iterator[None]:
    started = time.monotonic()
    print(f"  {name} ...", end="", flush=True)
    yield
    print(f" {time.monotonic() - started:.1f} s", flush=True)
