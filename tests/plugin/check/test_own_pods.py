"""Test that the pods of a running release count as free capacity for the release's new job."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.check.report import Report
from tests.plugin.check.judging import chart_job, examined, judged, said
from tests.plugin.objects import (
    Object,
    node,
    pod,
)


def _own(name: str, release: str, **fields: Any) -> Object:
    own = pod(name, on="a", **fields)
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": release}
    own["metadata"]["labels"] = labels
    return own


def _of_run1(running: list[Object]) -> Report:
    job = chart_job(workers=2, gpus=4)
    return judged(job, [node("a", gpu="8")], running, release="run1")


def test_pods_of_the_run_itself_make_room_and_are_named() -> None:
    answer = _of_run1([_own("p", "run1", gpu="4"), _own("q", "run1", gpu="4")])

    assert answer.verdict == "fits"
    assert answer.assumed == ["the run's own 2 pods count as free, since the run keeps or replaces them"]
    assert said(answer, chart_job()).endswith(f"assumed: {answer.assumed[0]}")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_own("p", "run2", gpu="4"), id="another-release"),
        pytest.param(pod("p", on="a", gpu="4"), id="no-label"),
        pytest.param(
            {
                **(leaving := _own("p", "run1", gpu="4")),
                "metadata": {**leaving["metadata"], "deletionTimestamp": "2026"},
            },
            id="leaving-but-not-gone",
        ),
        pytest.param(
            {**(foreign := _own("p", "run1", gpu="4")), "metadata": {**foreign["metadata"], "namespace": "other"}},
            id="another-namespace",
        ),
    ],
)
def test_other_pods_keep_their_room(other: Object) -> None:
    answer = _of_run1([other])

    assert (answer.verdict, answer.assumed) == ("busy", [])


# Argo CD may change the label app.kubernetes.io/instance of a hook's pod.
@pytest.mark.parametrize("changed", [{}, {"app.kubernetes.io/instance": "app", "distrain/instance": "run1"}])
def test_pod_that_runs_the_check_makes_room_without_a_word(changed: dict[str, str]) -> None:
    preflight = _own("p", "run1", gpu="4")
    preflight["metadata"]["labels"] |= {"app.kubernetes.io/component": "preflight", **changed}

    answer = _of_run1([preflight])

    assert (answer.verdict, answer.assumed) == ("fits", [])


def test_own_pods_that_hold_no_node_change_nothing() -> None:
    waiting = _own("p", "run1", gpu="4", phase="Pending")
    waiting["spec"]["nodeName"] = ""

    prepared, _ = examined(chart_job(), [node("a")], [waiting], [], release="run1")

    assert prepared.own == 0
