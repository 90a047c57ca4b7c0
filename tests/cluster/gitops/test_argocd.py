"""Test that the real Argo CD manages a run with the files from docs/argocd.

The tests make each change with a git commit.
"""

from __future__ import annotations

import pytest

from lab.cluster.client import kubectl
from lab.gitops import argocd
from lab.waiting import wait_until
from tests.cluster.gitops import argocd_application
from tests.cluster.gitops.argocd_application import SECONDS, Application, Operation
from tests.cluster.gitops.commits import TOO_MANY, job, run_values
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    assert_no_step_was_lost,
    head,
    refresh_hostfile,
    wait_for_checkpoint,
    wait_for_step,
)

IN_TRAINING, ENDED = ("Synced", "Progressing"), ("Synced", "Healthy")


@pytest.fixture
def application(argo_cd: None, namespace: Namespace) -> Application:
    """Create an Application that trains a run of two workers."""
    return Application.new(namespace, run_values(2))


@pytest.fixture
def application_set(argo_cd: None, namespace: Namespace) -> Application:
    """Create an ApplicationSet, which creates one Application for each values file in git.

    This repository contains one values file.
    """
    return Application.new(namespace, run_values(2), "applicationset.yaml")


def _refuse(application: Application) -> Operation:
    """Commit more workers than the lab has GPUs for, and return the sync operation.

    The operation fails in the preflight check.
    """
    operation = application.commit(run_values(TOO_MANY))
    assert operation["phase"] == "Failed"
    assert operation.get("retryCount", 0) == 0
    assert "operation" not in argocd_application.read()
    return operation


def test_application_trains_rescales_and_outlives_a_refused_commit(
    application: Application, namespace: Namespace
) -> None:
    wait_for_checkpoint(namespace)
    first = job(namespace)
    assert [application.refresh() for _ in range(5)] == [IN_TRAINING] * 5

    assert application.commit(run_values(3))["phase"] == "Succeeded"
    refresh_hostfile(namespace, 3)
    wait_for_step(namespace, ranks=3)
    assert job(namespace) == first
    assert_no_step_was_lost(namespace)
    assert application.refresh() == IN_TRAINING

    before = head(namespace)
    refused = _refuse(application)
    verdicts = [one["message"] for one in refused["syncResult"]["resources"] if one.get("hookPhase") == "Failed"]
    assert any(verdict.startswith("impossible: ") for verdict in verdicts), refused
    assert job(namespace) == first
    after = wait_for_checkpoint(namespace, before)
    assert before
    assert after.generation == before.generation

    # A changed `trainer.steps` makes the chart replace the job. The new job ends at once, because the run has already
    # made more than the one step that it asks for.
    assert application.commit(run_values(3, steps=1))["phase"] == "Succeeded"
    assert job(namespace) != first
    wait_until("Healthy", lambda: application.state() == ENDED, seconds=SECONDS, pause=1)
    assert namespace.outcome() == "Succeeded"
    assert [application.refresh() for _ in range(3)] == [ENDED] * 3


@pytest.mark.full
def test_application_can_be_deleted_while_it_trains_after_a_refused_commit(
    application: Application, namespace: Namespace
) -> None:
    wait_for_checkpoint(namespace)
    _refuse(application)

    kubectl("-n", argocd.NAMESPACE, "delete", "applications", "run1", "--timeout=60s")

    assert namespace.get("mpijobs") == []
    wait_until("the pods' end", lambda: not namespace.get("pods"), pause=0.5)


@pytest.mark.full
def test_application_set_owns_a_run_per_file(application_set: Application, namespace: Namespace) -> None:
    refresh = ("annotate", "applicationsets", "runs", "argocd.argoproj.io/application-set-refresh=true")
    runs = application_set.runs
    wait_until("run1", lambda: len(namespace.get("mpijobs")) == 1, seconds=SECONDS, pause=0.5)

    runs.commit({"runs/run2.yaml": run_values(1)})
    kubectl("-n", argocd.NAMESPACE, *refresh)
    wait_until("run2", lambda: len(namespace.get("mpijobs")) == 2, seconds=SECONDS, pause=0.5)
    assert argocd_application.names() == ["run1", "run2"]

    (runs.folder / "runs" / "run2.yaml").unlink()
    runs.commit()
    kubectl("-n", argocd.NAMESPACE, *refresh)
    wait_until("the end of run2", lambda: len(namespace.get("mpijobs")) == 1, seconds=SECONDS, pause=0.5)
    wait_until("its Application's end", lambda: argocd_application.names() == ["run1"], seconds=SECONDS, pause=0.5)
