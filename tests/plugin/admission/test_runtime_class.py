"""Pods whose overhead does not come from a RuntimeClass."""

from __future__ import annotations

from tests.plugin.check.judging import chart_job, judged
from tests.plugin.objects import node

ROOM = [node("a", {"ephemeral-storage": "9Gi"}, gpu="8")]
OVERHEAD = {"overhead": {"cpu": "100m"}}


def test_overhead_without_a_runtime_class_is_refused() -> None:
    answer = judged(chart_job(worker=OVERHEAD), ROOM)

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason.startswith("pod rejected: Pod Overhead set without corresponding RuntimeClass")
    assert answer.next == "workers: its pods have an overhead, which only a RuntimeClass sets. Leave overhead out."


def test_overhead_beside_a_runtime_class_is_counted() -> None:
    answer = judged(chart_job(worker={**OVERHEAD, "runtimeClassName": "kata"}), ROOM)

    assert answer.verdict == "fits"
    assert "the overhead and nodes of runtime class kata of the worker" in answer.unseen


def test_role_without_pods_may_have_any_overhead() -> None:
    assert judged(chart_job(workers=0, worker=OVERHEAD, version="v1"), ROOM).verdict == "fits"
