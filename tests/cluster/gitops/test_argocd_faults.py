"""Test a run under Argo CD: wrong commits, fast commits, an unreachable git server, a deleted Application."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lab.cluster import client
from lab.cluster.client import kubectl
from lab.gitops import argocd
from lab.waiting import wait_until
from tests.cluster.gitops import argocd_application
from tests.cluster.gitops.argocd_application import SECONDS, Application
from tests.cluster.gitops.commits import TOO_MANY, VALUES, job, run_values
from tests.cluster.testbed import Namespace
from tests.cluster.training import assert_no_step_was_lost, head, wait_for_checkpoint, wait_for_step

pytestmark = pytest.mark.full
IN_TRAINING = ("Synced", "Progressing")
SECONDS_AWAY = 60
# The chart creates objects of these kinds for a run.
KINDS = "mpijobs,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,services"


@pytest.fixture
def application(argo_cd: None, namespace: Namespace) -> Application:
    """Create an Application that trains a run of two workers, and wait for the run's first checkpoint."""
    application = Application.new(namespace, run_values(2))
    wait_for_checkpoint(namespace)
    return application


def test_last_of_ten_quick_commits_wins(application: Application, namespace: Namespace) -> None:
    first = job(namespace)
    for replicas in (3, 1, 2, 3, 1, 2, 3, 2, 1, 3):
        revision = application.runs.commit({VALUES: run_values(replicas)})
        application.refresh()
        time.sleep(5)

    wait_until("the last commit", lambda: application.is_compared(revision), seconds=SECONDS, pause=0.5)
    wait_for_step(namespace, ranks=3)
    assert job(namespace) == first
    assert_no_step_was_lost(namespace)


def test_values_that_the_schema_refuses_leave_the_running_job(application: Application, namespace: Namespace) -> None:
    first, before = job(namespace), head(namespace)
    application.runs.commit({VALUES: run_values(2) + "wrokers: {replicas: 3}\n"})
    application.refresh()

    wait_until("the refusal", lambda: "ComparisonError" in argocd_application.conditions(), seconds=SECONDS, pause=0.5)
    assert "wrokers" in argocd_application.conditions()["ComparisonError"]
    assert job(namespace) == first
    wait_for_checkpoint(namespace, before)
    assert application.commit(run_values(3))["phase"] == "Succeeded"
    wait_for_step(namespace, ranks=3)
    assert job(namespace) == first


def test_revision_of_the_chart_that_is_not_there_leaves_the_running_job(
    application: Application, namespace: Namespace
) -> None:
    first, before = job(namespace), head(namespace)
    application.patch({"op": "replace", "path": "/spec/sources/0/targetRevision", "value": "nowhere"})
    application.refresh()

    wait_until("the error", lambda: "ComparisonError" in argocd_application.conditions(), seconds=SECONDS, pause=0.5)
    assert "nowhere" in argocd_application.conditions()["ComparisonError"]
    assert job(namespace) == first
    wait_for_checkpoint(namespace, before)


def test_repository_that_is_away_leaves_the_running_job(application: Application, namespace: Namespace) -> None:
    first, before = job(namespace), head(namespace)
    assert application.chart
    with application.chart.away(), application.runs.away():
        application.refresh("hard")
        time.sleep(SECONDS_AWAY)
    application.refresh("hard")

    wait_until("Synced again", lambda: application.refresh() == IN_TRAINING, seconds=SECONDS, pause=1)
    after = wait_for_checkpoint(namespace, before)
    assert before
    assert after.generation == before.generation
    assert job(namespace) == first


def test_two_applications_of_one_run_are_told(application: Application, namespace: Namespace) -> None:
    first = job(namespace)
    other: dict[str, Any] = argocd_application.read()
    other["spec"]["sources"][0]["helm"]["releaseName"] = "run1"
    del other["status"]
    client.apply({**other, "metadata": {"name": "other", "namespace": argocd.NAMESPACE}})

    def told() -> bool:
        found = kubectl("-n", argocd.NAMESPACE, "get", "applications", "-o", "json")
        items = json.loads(found)["items"]
        types = [one["type"] for item in items for one in item.get("status", {}).get("conditions", [])]
        return "SharedResourceWarning" in types

    wait_until("a warning", told, seconds=SECONDS, pause=0.5)
    assert job(namespace) == first


@pytest.mark.parametrize("moment", ["training", "rescale", "refused sync"])
@pytest.mark.parametrize("finalizer", [True, False])
def test_deleted_application_goes_at_once(
    application: Application, namespace: Namespace, moment: str, finalizer: bool
) -> None:
    """If the Application has no finalizer, Argo CD leaves the run's objects in the cluster, and the run continues."""
    if not finalizer:
        application.patch({"op": "remove", "path": "/metadata/finalizers"})
    if moment != "training":
        revision = application.runs.commit({VALUES: run_values(3 if moment == "rescale" else TOO_MANY)})
        application.refresh()
        wait_until("a sync", lambda: bool(application.operation(revision)), seconds=SECONDS)

    kubectl("-n", argocd.NAMESPACE, "delete", "applications", "run1", "--timeout=60s")

    if finalizer:
        assert namespace.get("mpijobs") == []
        wait_until("the pods' end", lambda: not namespace.get("pods"), pause=0.5)
    else:
        wait_for_checkpoint(namespace, head(namespace))
        _remove_run(namespace)


def _remove_run(namespace: Namespace) -> None:
    """Remove a run that no Application manages any more.

    Argo CD adds a finalizer to a sync's hooks, and removes the finalizer at the end of the sync. The Application is
    gone, so this sync never ends, and the test must remove the finalizer.
    """
    for kinds in ("pods,roles,rolebindings,serviceaccounts,configmaps", "clusterroles,clusterrolebindings"):
        get = ("-n", namespace.name, "get", kinds, "--selector=app.kubernetes.io/instance=run1", "-o", "name")
        for name in kubectl(*get).split():
            kubectl("-n", namespace.name, "patch", name, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    kubectl("-n", namespace.name, "delete", KINDS, "--selector=app.kubernetes.io/instance=run1")
    kubectl("delete", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/instance=run1")
