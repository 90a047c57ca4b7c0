"""Test what is read of a release that is to change: whether its job runs, since when, and who manages it."""

from __future__ import annotations

from typing import Any

import pytest

from distrain import kube
from distrain.helm.releases import Revision
from distrain.release import current
from distrain.release.current import Current
from distrain.release.owner import Owner

REVISION = Revision(3, "deployed", "0.1.0", {}, "")


def _job(*conditions: kube.Condition, **metadata: Any) -> kube.Workload:
    found = kube.TemplateMetadata(**{"name": "run1", **metadata})
    return kube.Workload(found, status=kube.WorkloadStatus(list(conditions)))


@pytest.mark.parametrize(
    ("state", "runs"),
    [
        pytest.param(_job(), True, id="runs"),
        pytest.param(_job(kube.Condition(type="Failed", status="True")), False, id="has-failed"),
        pytest.param(None, False, id="is-gone"),
    ],
)
def test_job_runs_until_it_has_ended_or_is_gone(state: kube.Workload | None, runs: bool) -> None:
    job: Any = None

    assert Current(REVISION, job, state, []).runs is runs


def test_owner_is_found_by_the_marks_of_the_running_job_alone() -> None:
    owned = _job(labels={"argocd.argoproj.io/instance": "run1"})

    assert current.owner_of(REVISION, owned) == Owner("Application", "run1")
    assert current.owner_of(REVISION, _job()) is None
    assert current.owner_of(REVISION) is None
