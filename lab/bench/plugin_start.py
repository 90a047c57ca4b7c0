"""Measure how long the plugin takes to start, compared with a Python that does nothing.

The bench runs the packaged plugin in its own Python environment, as Helm does. Each figure is a ratio: the median time
of a command, divided by the median time of the empty Python program. The programs run alternately, so that other load
on the machine slows all of them down equally.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.builds.golang import binary
from lab.builds.installed import installed
from lab.paths import REPOSITORY

ROUNDS = 20
# The most time that a command may take, as a multiple of the time in which Python starts and runs an empty program.
LIMITS = {"--help": 3, "completion": 4, "derive": 13, "check": 25}
# The snapshot that `check` reads has this many nodes. Each node runs four pods.
NODES = 500
GIVEN = REPOSITORY / "tests" / "plugin" / "golden" / "given.yaml"
PYTHON = "python -I -c pass"

Command = Sequence[str]


def main() -> int:
    """Measure, print one line per figure, and return 1 if a figure exceeds its limit."""
    slow = False
    for helm in ("helm3", "helm4"):
        with TemporaryDirectory(prefix="bench-") as folder:
            snapshot = _snapshot(Path(folder, "snapshot.json"))
            seconds = measure(_commands(installed(Path(folder)), snapshot), _environment(helm))
        start = seconds.pop(PYTHON)
        for name, median in seconds.items():
            ratio = median / start
            slow |= ratio > LIMITS[name]
            took = f"{1000 * median:.0f} ms, {ratio:.1f} x `{PYTHON}` ({1000 * start:.0f} ms)"
            print(f"distrain {name}, {helm}: {took}; at most {LIMITS[name]} x")
    return int(slow)


def measure(commands: Mapping[str, Command], environment: Mapping[str, str]) -> dict[str, float]:
    """Return the median duration of each command in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    # Leave out the first round: the files are not in the page cache yet.
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


def _commands(plugin: Path, snapshot: Path) -> dict[str, Command]:
    program = str(plugin / "bin" / "distrain")
    return {
        PYTHON: [str(plugin / ".venv" / "bin" / "python"), "-I", "-c", "pass"],
        "--help": [program, "--help"],
        "derive": [program, "derive", "--node-gpus", "8", "-f", str(GIVEN)],
        "check": [program, "check", "-f", str(GIVEN), "--snapshot", str(snapshot)],
        "completion": [str(plugin / "plugin.complete"), "check", "--"],
    }


def _snapshot(path: Path) -> Path:
    """Write a file like the output of `kubectl get nodes,pods -A -o json` for these nodes and their pods."""
    items = [each for number in range(NODES) for each in (_node(number), *(_pod(number, pod) for pod in range(4)))]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    allocatable = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"allocatable": allocatable, "capacity": allocatable}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _pod(node: int, number: int) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": f"{1 + number}", "memory": "4Gi"}}}
    spec = {"nodeName": f"node-{node}", "containers": [container]}
    metadata = {"name": f"pod-{node}-{number}", "namespace": "other"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def _environment(helm: str) -> dict[str, str]:
    return {**os.environ, "HELM_BIN": str(binary(helm)), "HELM_PLUGIN_NAME": "distrain", "KUBECONFIG": os.devnull}


if __name__ == "__main__":
    sys.exit(main())
