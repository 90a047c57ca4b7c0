"""Test the ClusterRole that Kubernetes aggregates into Kubeflow's kubeflow-edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.documents import documents, of_kind, only
from tests.chart.rendering import refusal, set_arguments

AGGREGATE = "rbac.aggregateToKubeflowEdit=true"
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]


def rule(resource: str, verbs: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": ["kubeflow.org"], "resources": [resource], "verbs": verbs}


def test_no_role_unless_asked_for(helm: Path) -> None:
    found = documents(helm)

    assert of_kind(found, "ClusterRole") == []


def test_role_is_one_of_its_own_and_named_after_the_release(helm: Path) -> None:
    role = only(documents(helm, AGGREGATE), "ClusterRole")

    assert role["metadata"]["name"] == "distrain:team:run1"
    assert role["metadata"]["labels"]["rbac.authorization.kubeflow.org/aggregate-to-kubeflow-edit"] == "true"


@pytest.mark.parametrize(
    ("framework", "resource"),
    [
        pytest.param("tensorflow", "mpijobs", id="tensorflow"),
        pytest.param("pytorch", "pytorchjobs", id="pytorch"),
    ],
)
def test_role_allows_the_jobs_own_kind_alone(helm: Path, framework: str, resource: str) -> None:
    role = only(documents(helm, AGGREGATE, f"framework={framework}"), "ClusterRole")

    assert role["rules"] == [rule(resource, VERBS), rule(f"{resource}/status", ["get"])]


def test_role_allows_the_kinds_named(helm: Path) -> None:
    role = only(documents(helm, AGGREGATE, "rbac.kinds={MXJob,TFJob}"), "ClusterRole")

    assert role["rules"][0]["resources"] == ["mxjobs", "tfjobs"]
    assert role["rules"][1]["resources"] == ["mxjobs/status", "tfjobs/status"]


def test_without_a_job_the_role_is_all(helm: Path) -> None:
    found = documents(helm, AGGREGATE, "job.enabled=false", "rbac.kinds={MPIJob}", "preflight.enabled=true")

    assert [document["kind"] for document in found] == ["ClusterRole"]


@pytest.mark.parametrize(
    ("refused", "words", "accepted"),
    [
        pytest.param(
            ["job.enabled=false"],
            "job.enabled: is false, and so is rbac.aggregateToKubeflowEdit, so there is nothing to install; set one",
            ["job.enabled=false", AGGREGATE, "rbac.kinds={MPIJob}"],
            id="nothing-to-install",
        ),
        pytest.param(
            [AGGREGATE, "rbac.create=false"],
            "rbac.aggregateToKubeflowEdit: is true, but with rbac.create=false the chart creates no roles; "
            "set rbac.create",
            ["rbac.create=false"],
            id="no-roles-wanted",
        ),
        pytest.param(
            [AGGREGATE, "job.enabled=false"],
            "rbac.kinds: is empty and job.enabled is false, so there is no kind to grant rights for; name the kinds",
            [AGGREGATE, "job.enabled=false", "rbac.kinds={TFJob}"],
            id="no-job-to-take-the-kind-from",
        ),
        pytest.param(
            [AGGREGATE, "job.kind=Plain"],
            "rbac.kinds: is empty and job.kind is Plain, which is not a Kubeflow kind; name the kinds to "
            "grant rights for",
            [AGGREGATE, "job.kind=Plain", "rbac.kinds={MPIJob}"],
            id="plain-has-no-kind",
        ),
    ],
)
def test_role_without_a_kind_is_refused(helm: Path, refused: list[str], words: str, accepted: list[str]) -> None:
    assert f"distrain: {words}" in refusal(helm, *set_arguments(*refused))

    documents(helm, *accepted)
