"""Test a worker count with one digit too many: the node runs as many workers as fit, and a rollback ends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace, settings

LAUNCHER = 1
MEANT, TYPED = 4, 44
VALUES = {
    "image.repository": "distrain/tensorflow",
    "workers.gpus": 0,
    "workers.replicas": MEANT,
    "command": ["sleep", "3600"],
    "rescale.mode": "live",
}


@pytest.mark.full
def test_workers_too_many_stay_pending_and_a_rollback_ends_them(namespace: Namespace, helm4: Path) -> None:
    installed = namespace.helm(helm4, "install", "run1", str(CHART), *settings(VALUES))
    assert installed.returncode == 0, installed.stderr
    wait_until("the workers and the launcher", lambda: len(namespace.running_pods()) == LAUNCHER + MEANT)

    grown = namespace.helm(
        helm4, "upgrade", "run1", str(CHART), *settings({**VALUES, "workers.replicas": TYPED}), "--timeout", "5m"
    )
    assert grown.returncode == 0, grown.stderr
    wait_until("the pods", lambda: len(pods(namespace)) == LAUNCHER + TYPED, seconds=120, pause=1)
    wait_until("the scheduler's word on each", lambda: all(map(is_placed_or_waits, pods(namespace))), pause=1)
    waiting = [pod for pod in pods(namespace) if "nodeName" not in pod["spec"]]
    back = namespace.helm(helm4, "rollback", "run1")

    assert back.returncode == 0, back.stderr
    # Each worker requests 100m CPU and the lab has two cores, so at most 20 workers can be placed.
    assert len(waiting) >= LAUNCHER + TYPED - 20
    wait_until("the pods' end", lambda: len(pods(namespace)) == LAUNCHER + MEANT, pause=1)


def pods(namespace: Namespace) -> list[dict[str, Any]]:
    return namespace.get("pods -l app.kubernetes.io/instance=run1")


def is_placed_or_waits(pod: dict[str, Any]) -> bool:
    """Return whether the scheduler has placed the pod, or has found no node for it."""
    reasons = [one.get("reason") for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
    return "nodeName" in pod["spec"] or "Unschedulable" in reasons
