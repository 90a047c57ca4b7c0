"""Start and stop the controllers of Argo CD or Flux as processes in the lab's Linux namespaces."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.cluster import faults, namespaces
from lab.cluster.client import kubectl
from lab.cluster.namespaces import NODE_ADDRESS
from lab.errors import LabError
from lab.waiting import listens, wait_until

# On a busy machine, a controller may take this many seconds to fill its caches and to listen.
STARTING = 180


def start(name: str, command: Sequence[str | Path], environment: Mapping[str, str], port: int) -> None:
    """Start a controller unless it already runs, and wait until it listens on this port of the node.

    If the controller exits instead, raise LabError with the last lines of its log.
    """
    if namespaces.is_running(name):
        return
    namespaces.start(name, command, environment)
    wait_until(name, lambda: listens(NODE_ADDRESS, port) or not namespaces.is_running(name), seconds=STARTING)
    if not namespaces.is_running(name):
        raise LabError(f"{name} ended: {namespaces.last_words(name)}")


def stop(name: str) -> None:
    """Stop a controller if it runs, and wait until it has ended."""
    if namespaces.is_running(name):
        os.kill(faults.started(name), signal.SIGTERM)
        wait_until(f"{name}'s end", lambda: not namespaces.is_running(name))


def put_crds(folder: Path) -> None:
    """Apply the CRDs of a folder, and wait until the API server serves them."""
    files = [f"--filename={path}" for path in sorted(folder.glob("*.yaml")) if path.name != "kustomization.yaml"]
    kubectl("apply", "--server-side", "--force-conflicts", *files)
    wait_for_crds(files)


def wait_for_crds(files: Sequence[str]) -> None:
    """Wait until the CRDs in these files are established.

    `kubectl wait` alone would fail while a new CRD has no condition yet.
    """
    wait_until("the API server to serve new CRDs", lambda: all(map(_is_established, _found(files))))


def _found(files: Sequence[str]) -> list[dict[str, Any]]:
    found = json.loads(kubectl("get", "--output=json", *files))
    return list(found.get("items", [found]))


def _is_established(crd: Mapping[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
