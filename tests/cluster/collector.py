"""Collect evidence of a failure from a namespace of the lab: events, objects, and the logs of all containers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.cluster.client import kubectl
from lab.errors import LabError

# Do not collect Secrets: a user may pass the folder on, and Secrets contain SSH keys.
LEFT_OUT = {"secrets", "events", "events.events.k8s.io"}


def collect(namespace: str, folder: Path) -> None:
    """Write the namespace's events, objects and logs into files.

    If a kubectl command fails, its file contains the error message instead.
    """
    if not _write(folder / "events.txt", namespace, "get", "events", "--sort-by=.lastTimestamp", "--output=wide"):
        return  # Nothing more can be read: the API server does not answer.
    for pod in json.loads(_ask(namespace, "get", "pods", "--output=json"))["items"]:
        for container, restarts in _containers(pod):
            name = pod["metadata"]["name"]
            command = ("logs", name, f"--container={container}", "--timestamps")
            _write(folder / f"{name}.{container}.log", namespace, *command)
            if restarts:
                _write(folder / f"{name}.{container}.previous.log", namespace, *command, "--previous")
    _write(folder / "objects.yaml", namespace, "get", _kinds(), "--output=yaml")


def _kinds() -> str:
    kinds = kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    return ",".join(kind for kind in kinds if kind not in LEFT_OUT)


def _containers(pod: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the name and the restart count of each container that was created in the pod."""
    for statuses in ("initContainerStatuses", "containerStatuses"):
        for status in pod["status"].get(statuses, []):
            yield status["name"], status["restartCount"]


def _write(path: Path, namespace: str, *command: str) -> bool:
    """Write kubectl's output, or its error, into a file. Return whether it succeeded."""
    try:
        path.write_text(_ask(namespace, *command))
    except LabError as error:
        path.write_text(f"{error}\n")
        return False
    return True


def _ask(namespace: str, *command: str) -> str:
    return kubectl("--namespace", namespace, "--request-timeout=20s", *command)
