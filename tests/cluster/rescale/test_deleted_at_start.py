"""Test that a pod ends at once if it is deleted while it starts, and does not use up its grace period."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from lab.cluster import client
from lab.waiting import wait_until
from tests.cluster.runs_of_kinds import KINDS, install
from tests.cluster.testbed import Namespace
from tests.cluster.training import wait_for_checkpoint

# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"
# DELAYS: after how many seconds the tests delete a new pod. GRACE: the pods' grace period in seconds.
DELAYS = [0.02 * index for index in range(5, 55)]
GRACE = 55


def second_worker(namespace: Namespace) -> str:
    """Return the uid of the second worker's pod, or "" if the pod does not exist or is being deleted."""
    names = (pod["metadata"] for pod in namespace.get("pods") if pod["metadata"]["name"] == "run1-worker-1")
    return next((pod["uid"] for pod in names if "deletionTimestamp" not in pod), "")


def is_another(namespace: Namespace, before: str) -> bool:
    return second_worker(namespace) not in ("", before)


@pytest.mark.full
def test_pod_that_is_deleted_as_it_starts_ends_at_once(
    namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None
) -> None:
    install(namespace, helm4, KINDS["elastic"], on_s3)
    wait_for_checkpoint(namespace, seconds=300)
    took, before = [], ""

    for delay in DELAYS:
        wait_until("another worker", partial(is_another, namespace, before), seconds=300, pause=0.05)
        before = second_worker(namespace)
        time.sleep(delay)
        begun = time.monotonic()
        client.kubectl("-n", namespace.name, "delete", "pod", "run1-worker-1")
        took.append(round(time.monotonic() - begun, 1))

    assert max(took) < GRACE / 2, took
