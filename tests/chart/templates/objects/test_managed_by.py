"""Test job.managedBy, with which MultiKueue runs the job in another cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.documents import documents, hooks
from tests.chart.kinds import KINDS
from tests.chart.notes import notes
from tests.chart.rendering import refusal, render_with, set_arguments

QUEUED = ("gang.scheduler=kueue", "gang.queue=team-a")
MANAGED = ("job.managedBy=kueue.x-k8s.io/multikueue", *QUEUED)
KNOWING = ("mpijob-v2beta1", "pytorchjob-elastic", "pytorchjob-master", "tfjob")


@pytest.mark.parametrize("kind", KNOWING)
def test_field_is_in_the_run_policy(helm: Path, kind: str) -> None:
    managed, queued = (render_with(helm, (*KINDS[kind], *values)) for values in (MANAGED, QUEUED))

    assert managed.job["spec"]["runPolicy"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert "managedBy" not in queued.job["spec"]["runPolicy"]
    # The field is immutable.
    assert managed.content != queued.content


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in KNOWING])
def test_kind_without_the_field_refuses_it(helm: Path, kind: str) -> None:
    words = refusal(helm, *set_arguments(*KINDS[kind], MANAGED[0]))

    assert "has no such field; remove it, or use MPIJob v2beta1 or job.kind PyTorchJob or job.kind TFJob" in words


def test_field_without_a_queue_is_refused(helm: Path) -> None:
    words = refusal(helm, *set_arguments(MANAGED[0]))

    assert (
        'job.managedBy: is "kueue.x-k8s.io/multikueue", but gang.scheduler is none, so no controller would run the job'
    ) in words


def test_release_has_no_test_as_it_would_look_for_pods_in_the_wrong_cluster(
    helm: Path, chart_with_visible_notes: Path
) -> None:
    queued, managed = (hooks(documents(helm, *values), "test") for values in (QUEUED, MANAGED))

    assert queued
    assert managed == []
    assert "helm --namespace team test" in notes(helm, chart_with_visible_notes, *QUEUED)
    assert "helm --namespace team test" not in notes(helm, chart_with_visible_notes, *MANAGED)


def test_value_for_the_test_that_is_left_out_is_refused(helm: Path) -> None:
    words = refusal(helm, *set_arguments(*MANAGED, "test.workers=2"))

    assert "distrain: test.workers: 2 is set, but job.managedBy lets the job run in another cluster, so that" in words
    render_with(helm, (*QUEUED, "test.workers=2"))


def test_check_before_an_install_is_refused_as_it_would_judge_the_wrong_cluster(helm: Path) -> None:
    words = refusal(helm, *set_arguments(*MANAGED, "preflight.enabled=true"))

    assert "distrain: preflight.enabled: is true, but job.managedBy lets the job run in another cluster" in words
    assert "; set preflight.enabled to false" in words
