"""Test what `status` says of runs that a queue holds back, with the words of Kueue."""

from __future__ import annotations

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import SMALLER, told
from tests.plugin.status.runs import LABELS, PYTORCH, changed, live, serve

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/namespaces/team/workloads"
QUEUED = changed(live(PYTORCH, labels={**LABELS, "kueue.x-k8s.io/queue-name": "gpus"}), suspend=True)
FLAVORS = "couldn't assign flavors to pod set worker: "


@pytest.mark.parametrize(
    ("message", "then"),
    [
        pytest.param(
            "LocalQueue gpus doesn't exist",
            "create the LocalQueue in this namespace, or correct gang.queue",
            id="no-local-queue",
        ),
        pytest.param(
            "ClusterQueue team doesn't exist",
            "the queue belongs to none: ask those who run Kueue",
            id="no-cluster-queue",
        ),
        pytest.param(
            "ClusterQueue team is inactive",
            "wait, or ask those who run the queue: it admits nothing now",
            id="inactive",
        ),
        pytest.param(
            f"{FLAVORS}insufficient quota for nvidia.com/gpu in flavor a, request > maximum capacity (16 > 8)",
            f"the queue never has so much: {SMALLER}, or choose another queue",
            id="too-large",
        ),
        pytest.param(
            f"{FLAVORS}insufficient unused quota for nvidia.com/gpu in flavor a, 4 more needed",
            "wait: the queue starts the run when there is room",
            id="full",
        ),
    ],
)
def test_what_kueue_says_has_a_next_step(api: FakeApi, status: Run, message: str, then: str) -> None:
    serve(api, QUEUED)
    conditions = [{"type": "QuotaReserved", "status": "False", "message": message}]
    api.answers[WORKLOADS] = [{"metadata": {"name": "w"}, "status": {"conditions": conditions}}]

    assert told(status("run1")) == ("Queued, in queue gpus", message, then)


def test_queue_that_says_nothing_may_not_manage_this_kind(api: FakeApi, status: Run) -> None:
    serve(api, QUEUED)
    api.answers[WORKLOADS] = []

    assert told(status("run1"))[1:] == (
        "no reason is known yet",
        "wait: the queue starts the run when there is room; if it never says why, it does not run, or does not manage "
        "this kind of job",
    )
