"""Test the defaults that LimitRanges set, and which pods they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin.check.judging import chart_job, judged
from tests.plugin.objects import Object, node

ROOM = [node("a", gpu="8")]


def _range(kind: str = "Container", **limits: Any) -> Object:
    metadata = {"name": "small", "namespace": "team"}
    return {"kind": "LimitRange", "metadata": metadata, "spec": {"limits": [{"type": kind, **limits}]}}


def _worker(**resources: Any) -> Object:
    return {"containers": [{"name": "main", "resources": resources}]}


def _verdict(worker: Object, *limits: Object) -> tuple[str, list[str]]:
    answer = judged(chart_job(workers=1, worker=worker), ROOM, others=list(limits))
    return answer.verdict, [reason.reason for reason in answer.reasons]


def test_defaults_become_requests() -> None:
    default = _range(default={"cpu": "4", "memory": "2Gi"}, defaultRequest={"cpu": "2", "memory": "1Gi"})

    answer = judged(chart_job(workers=1, worker=_worker(requests={"memory": "3Gi"})), ROOM, others=[default])

    assert answer.pods[-1].requests == {"cpu": "2", "memory": "3Gi"}


def test_a_limit_is_a_request_before_any_default_is() -> None:
    default = _range(default={"cpu": "4"}, defaultRequest={"cpu": "2"})

    answer = judged(chart_job(workers=1, worker=_worker(limits={"cpu": "3"})), ROOM, others=[default])

    assert answer.pods[-1].requests == {"cpu": "3"}


def test_ranges_of_other_namespaces_give_nothing() -> None:
    elsewhere = _range(defaultRequest={"cpu": "2"})
    elsewhere["metadata"]["namespace"] = "blue"

    assert judged(chart_job(workers=1, worker=_worker()), ROOM, others=[elsewhere]).pods[-1].requests == {}


@pytest.mark.parametrize(
    ("worker", "limits", "words"),
    [
        pytest.param(
            _worker(requests={"cpu": "1"}),
            {"min": {"cpu": "2"}},
            "minimum cpu usage per Container is 2, but request is 1",
            id="below-min",
        ),
        pytest.param(
            _worker(),
            {"kind": "Pod", "min": {"memory": "1Gi"}},
            "minimum memory usage per Pod is 1Gi.  No request is specified",
            id="no-request",
        ),
        pytest.param(
            _worker(limits={"cpu": "5"}),
            {"max": {"cpu": "4"}},
            "maximum cpu usage per Container is 4, but limit is 5",
            id="above-max",
        ),
        pytest.param(
            _worker(requests={"cpu": "1"}),
            {"kind": "Pod", "max": {"cpu": "4"}},
            "maximum cpu usage per Pod is 4.  No limit is specified",
            id="no-limit",
        ),
        pytest.param(
            _worker(requests={"cpu": "1"}, limits={"cpu": "3"}),
            {"maxLimitRequestRatio": {"cpu": "2"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            id="ratio",
        ),
    ],
)
def test_pod_outside_the_limits_is_refused(worker: Object, limits: Object, words: str) -> None:
    verdict, reasons = _verdict(worker, _range(**limits))

    assert verdict == "impossible"
    assert words in reasons


@pytest.mark.parametrize(
    ("worker", "limits"),
    [
        pytest.param({"requests": {"cpu": "2"}}, {"min": {"cpu": "100m"}}, id="min"),
        pytest.param({"limits": {"cpu": "2"}}, {"max": {"cpu": "2"}}, id="max"),
        pytest.param(
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, {"maxLimitRequestRatio": {"cpu": "2"}}, id="ratio"
        ),
    ],
)
def test_pod_within_the_limits_passes(worker: Object, limits: Object) -> None:
    launcher = _worker(requests={"cpu": "1"}, limits={"cpu": "1"})
    job = chart_job(workers=1, worker=_worker(**worker), launcher=launcher)

    assert judged(job, ROOM, others=[_range(**limits)]).verdict == "fits"


def test_limits_of_a_pod_are_about_its_sum() -> None:
    two = {"containers": [{"name": name, "resources": {"limits": {"cpu": "3"}}} for name in ("one", "two")]}
    launcher = _worker(limits={"cpu": "1"})
    job = chart_job(workers=1, worker=two, launcher=launcher)

    answer = judged(job, ROOM, others=[_range("Pod", max={"cpu": "5"})])

    assert answer.next == (
        "workers: LimitRange small refuses its pods: maximum cpu usage per Pod is 5, but limit is 6. "
        "Change what they ask for, or the LimitRange."
    )


def test_default_does_not_replace_the_containers_own_limit() -> None:
    default = _range(default={"cpu": "4"}, defaultRequest={"cpu": "1"}, max={"cpu": "4"})

    verdict, reasons = _verdict(_worker(limits={"cpu": "5"}), default)

    assert (verdict, reasons) == ("impossible", ["maximum cpu usage per Container is 4, but limit is 5"])
