"""Collect what a namespace of the lab tells about a failure: events, objects, and the logs of all containers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.cluster.client import kubectl
from lab.errors import LabError

# A Secret's content, for example an SSH key, should not be in a folder that people pass on.
LEFT_OUT = {"secrets", "events", "events.events.k8s.io"}


def collect(namespace: str, folder: Path) -> None:
    """Write the namespace's events, objects and logs into files. A file says so if its content could not be read."""
    _write(folder / "events.txt", namespace, "get", "events", "--sort-by=.lastTimestamp", "--output=wide")
    _write(folder / "objects.yaml", namespace, "get", _kinds(), "--output=yaml")
    try:
        pods = json.loads(_ask(namespace, "get", "pods", "--output=json"))["items"]
    except LabError:
        return  # events.txt has the same message.
    for pod in pods:
        for container, restarts in _containers(pod):
            name = pod["metadata"]["name"]
            command = ("logs", name, f"--container={container}", "--timestamps")
            _write(folder / f"{name}.{container}.log", namespace, *command)
            if restarts:
                _write(folder / f"{name}.{container}.previous.log", namespace, *command, "--previous")


def _kinds() -> str:
    try:
        kinds = kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    except LabError:
        return "all"
    return ",".join(kind for kind in kinds if kind not in LEFT_OUT)


def _containers(pod: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the names of the pod's containers that have been created, and how often each restarted."""
    for statuses in ("initContainerStatuses", "containerStatuses"):
        for status in pod["status"].get(statuses, []):
            yield status["name"], status["restartCount"]


def _write(path: Path, namespace: str, *command: str) -> None:
    try:
        path.write_text(_ask(namespace, *command))
    except LabError as error:
        path.write_text(f"{error}\n")


def _ask(namespace: str, *command: str) -> str:
    return kubectl("--namespace", namespace, "--request-timeout=20s", *command)
