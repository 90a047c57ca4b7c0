"""Add the API server's defaults to pods that a person has written by hand, as far as a check needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from distrain.admission.priority import SYSTEM_PRIORITIES
from distrain.kube.policy import PriorityClass
from distrain.pods.pods_json import JsonPod


def stored(text: msgspec.Raw, classes: Sequence[PriorityClass]) -> JsonPod:
    """Decode a pod, and add defaults if a person wrote it.

    A pod without a priority was written by a person, because the API server sets a priority in every pod. The request
    of a container that has only a limit is set elsewhere, in pods/pod_requests.py.
    """
    pod = msgspec.json.decode(text, type=JsonPod)
    if pod.spec.priority is not None:
        return pod
    tree = msgspec.json.decode(text)
    spec = tree["spec"] = tree.get("spec") or {}
    spec["priority"] = _priority(spec.get("priorityClassName"), classes)
    if spec.get("hostNetwork"):
        _set_host_ports([*_list(spec.get("containers")), *_list(spec.get("initContainers"))])
    return msgspec.json.decode(msgspec.json.encode(tree), type=JsonPod)


def _priority(name: object, classes: Sequence[PriorityClass]) -> int:
    """Return the priority of the class with this name.

    If the pod names no class, return the lowest priority among the PriorityClasses with globalDefault: true.
    """
    if isinstance(name, str) and name in SYSTEM_PRIORITIES:
        return SYSTEM_PRIORITIES[name]
    found = (each.value for each in classes if (each.metadata.name == name if name else each.global_default))
    return min(found, default=0)


def _set_host_ports(containers: Sequence[Any]) -> None:
    """For containers that use the host network, set each missing host port to the container port."""
    for container in containers:
        for port in _list(container.get("ports")):
            if isinstance(port, dict) and not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
