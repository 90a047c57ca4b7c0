"""Test what the program reads about a release before a change: whether its job runs, since when, and who manages it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from distrain import kube
from distrain.helm.releases import Revision
from distrain.release import current
from distrain.release.current import Current
from distrain.release.owner import Owner
from distrain.yaml import yaml_writer

REVISION = Revision(3, "deployed", "0.1.0", {}, "")


def _job(*conditions: kube.Condition, **metadata: Any) -> kube.Workload:
    found = kube.TemplateMetadata(**{"name": "run1", **metadata})
    return kube.Workload(found, status=kube.WorkloadStatus(list(conditions)))


@pytest.mark.parametrize(
    ("state", "runs", "end"),
    [
        pytest.param(_job(), True, None, id="runs"),
        pytest.param(_job(kube.Condition(type="Failed", status="True")), False, "Failed", id="has-failed"),
        pytest.param(None, False, None, id="is-gone"),
    ],
)
def test_job_runs_until_it_has_ended_or_is_gone(state: kube.Workload | None, runs: bool, end: str | None) -> None:
    job: Any = None

    found = Current(REVISION, job, state, [])

    assert (found.runs, found.end) == (runs, end)


def test_owner_is_found_by_the_marks_in_the_revision_alone() -> None:
    marked = {"name": "b", "labels": {"argocd.argoproj.io/instance": "run1"}}
    objects = [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata} for metadata in ({"name": "a"}, marked)]

    assert current.owner_of(replace(REVISION, manifest=yaml_writer.dump(*objects))) == Owner("Application", "run1")


def test_owner_is_found_by_the_marks_of_the_running_job_alone() -> None:
    owned = _job(labels={"argocd.argoproj.io/instance": "run1"})

    assert current.owner_of(REVISION, owned) == Owner("Application", "run1")
    assert current.owner_of(REVISION, _job()) is None
    assert current.owner_of(REVISION) is None
