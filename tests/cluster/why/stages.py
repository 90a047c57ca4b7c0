"""Prepare the lab for a cause: create objects, fill or taint the node, start a registry, or stop an operator."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab import registry
from lab.cluster import client, components, faults
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.why.case import Stage, Values

Manifest = dict[str, Any]
PAUSE_IMAGE = components.PAUSE_IMAGE


def with_objects(*made: Callable[[str], Manifest]) -> Stage:
    """Return a stage that creates objects in the namespace.

    Each function gets the name of the namespace, and returns an object to create in it.
    """

    @contextmanager
    def stage(namespace: Namespace) -> Iterator[Values]:
        client.apply(*(make(namespace.name) for make in made))
        yield {}

    return stage


def with_cluster_objects(*made: Callable[[str], Manifest]) -> Stage:
    """Return a stage that creates objects outside the namespace, and deletes them after the test."""

    @contextmanager
    def stage(namespace: Namespace) -> Iterator[Values]:
        objects = [make(namespace.name) for make in made]
        client.apply(*objects)
        try:
            yield {}
        finally:
            for each in reversed(objects):
                client.kubectl("delete", each["kind"], each["metadata"]["name"], "--wait=false", "--ignore-not-found")

    return stage


def of_namespace(kind: str, name: str, api: str = "v1", **fields: Any) -> Callable[[str], Manifest]:
    def make(namespace: str) -> Manifest:
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}

    return make


def quota(name: str, **hard: str) -> Stage:
    amounts = {key.replace("__", "/").replace("_", "."): amount for key, amount in hard.items()}
    return with_objects(of_namespace("ResourceQuota", name, spec={"hard": amounts}))


def limits(kind: str, **rule: Any) -> Stage:
    return with_objects(of_namespace("LimitRange", "limits", spec={"limits": [{"type": kind, **rule}]}))


def claim(name: str, **spec: Any) -> Callable[[str], Manifest]:
    wanted = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return of_namespace("PersistentVolumeClaim", name, spec=wanted)


def volume(source: Manifest, name: str = "data") -> Values:
    """Return the values that mount a volume into the workers."""
    return {
        "volumes": [{"name": name, **source}],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"}],
    }


@contextmanager
def full_node(namespace: Namespace) -> Iterator[Values]:
    """Occupy all GPUs of the node with another pod."""
    gpus = {"limits": {"nvidia.com/gpu": str(components.GPUS)}}
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "pause", "image": PAUSE_IMAGE, "resources": gpus, "securityContext": restricted}
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 0}
    client.apply(of_namespace("Pod", "other", spec=spec)(namespace.name))
    try:
        wait_until("the other pod", lambda: "other" in namespace.running_pods(), seconds=120)
        yield {}
    finally:
        client.kubectl("-n", namespace.name, "delete", "pod", "other", "--wait")


@contextmanager
def tainted_node(_: Namespace) -> Iterator[Values]:
    client.kubectl("taint", "node", components.NODE, "owner=others:NoSchedule")
    try:
        yield {}
    finally:
        client.kubectl("taint", "node", components.NODE, "owner:NoSchedule-")


@contextmanager
def cordoned_node(_: Namespace) -> Iterator[Values]:
    client.kubectl("cordon", components.NODE)
    try:
        yield {}
    finally:
        client.kubectl("uncordon", components.NODE)


def stopped_operator(namespace: str, deployment: str) -> Stage:
    """Return a stage that stops an operator, and starts it again when the stage ends."""

    @contextmanager
    def stage(_: Namespace) -> Iterator[Values]:
        scale = ["-n", namespace, "scale", f"deployment/{deployment}"]
        client.kubectl(*scale, "--replicas=0")
        client.kubectl("-n", namespace, "wait", "--for=delete", "pods", "--all", "--timeout=120s")
        try:
            yield {}
        finally:
            client.kubectl(*scale, "--replicas=1")
            client.kubectl("-n", namespace, "rollout", "status", f"deployment/{deployment}", "--timeout=180s")

    return stage


def with_registry(*, login: str | None) -> Stage:
    """Return a stage with a registry that requires a login.

    `login` is `right` if the pull Secret has the right password, `wrong` if it has a wrong one, and None if there is no
    pull Secret.
    """

    @contextmanager
    def stage(namespace: Namespace) -> Iterator[Values]:
        with tempfile.TemporaryDirectory() as folder, registry.serve_plain_on_lab(Path(folder)) as served:
            if login:
                password = served.password if login == "right" else "wrong"
                client.apply(_login(served.host, password)(namespace.name))
            yield {"image.repository": f"{served.host}/team/trainer", "image.pullSecrets": ["hub"]}

    return stage


def _login(host: str, password: str) -> Callable[[str], Manifest]:
    auth = base64.b64encode(f"{registry.USER}:{password}".encode()).decode()
    config = json.dumps({"auths": {host: {"auth": auth}}})
    return of_namespace(
        "Secret", "hub", type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": config}
    )


@contextmanager
def foreign_ssh_key(namespace: Namespace) -> Iterator[Values]:
    """Create an SSH Secret whose private key does not belong to the public key in authorized_keys."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("own", "other"):
            path = str(Path(folder) / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", path], check=True)
        read = {name: (Path(folder) / name).read_text() for name in ("own", "own.pub", "other.pub")}
    keys = {"id_rsa": read["own"], "id_rsa.pub": read["own.pub"], "authorized_keys": read["other.pub"]}
    client.apply(of_namespace("Secret", "keys", stringData=keys)(namespace.name))
    yield {"ssh.secretName": "keys"}


@contextmanager
def halted_kubelet(namespace: Namespace) -> Iterator[None]:
    """When the run's pods run, stop the node's kubelet with SIGSTOP. To the API server, the node then looks lost."""
    wait_until("the run's pods", lambda: len(namespace.running_pods()) == 2, seconds=120)
    pid = faults.started("kubelet")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        client.kubectl("wait", "--for=condition=Ready", f"node/{components.NODE}", "--timeout=120s")


@contextmanager
def lost_pods(namespace: Namespace) -> Iterator[None]:
    """Wait until the run has failed, and delete its pods."""
    namespace.wait_for_end("mpijobs", seconds=180)
    client.kubectl("-n", namespace.name, "delete", "pods", "--all", "--grace-period=1")
    yield
