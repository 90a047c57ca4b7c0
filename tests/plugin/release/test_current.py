"""Test what the program reads about a release before a change: whether its job runs, since when, and who manages it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace

from distrain import kube
from distrain.errors import ForbiddenError, UnreachableError
from distrain.helm.releases import Revision
from distrain.progress.steps import Training
from distrain.release import current
from distrain.release.current import Current
from distrain.release.owner import Owner
from distrain.yaml import yaml_writer
from tests.plugin.objects import pod

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


@pytest.mark.parametrize("error", [ForbiddenError("forbidden"), UnreachableError("silent")], ids=["forbidden", "lost"])
def test_training_is_told_by_the_first_log_that_can_be_read(error: Exception) -> None:
    logs = [error, "checkpoint: saved a at step 7\n9\timages/sec: 1.0\n"]
    workers: Any = [_worker(f"worker-{number}") for number in range(len(logs))]
    job: Any = None
    now = datetime(2026, 1, 1, 0, 10, tzinfo=timezone.utc)

    found = current.training(Mock(log=Mock(side_effect=logs)), Current(REVISION, job, _job(), workers), "team", now)

    assert found == Training(steps=9, seconds=600, saved=7)


def _worker(name: str) -> kube.Pod:
    """Return a worker's pod that has run since midnight."""
    found = pod(name)
    found["metadata"]["labels"] = {"app.kubernetes.io/component": "worker"}
    state = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    found["status"]["containerStatuses"] = [state]
    return msgspec.convert(found, kube.Pod)
