"""Test that a user with the role kubeflow-edit may create jobs after an admin has installed the chart's ClusterRole."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_helm_charts.clusters import Cluster

from lab.cluster import client, lifecycle
from lab.cluster.operators import Operators
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace

USER = "jane"
ONLY_THE_ROLE = ["--set", "job.enabled=false,rbac.aggregateToKubeflowEdit=true,rbac.kinds={MPIJob}"]


@pytest.fixture
def editor(namespace: Namespace, helm4: Path) -> Iterator[Namespace]:
    """Return the namespace. In this namespace, the user USER has only Kubeflow's role kubeflow-edit."""
    client.kubectl("-n", namespace.name, "create", "rolebinding", USER, "--clusterrole=kubeflow-edit", f"--user={USER}")
    yield namespace
    # Deleting the namespace would not delete the chart's ClusterRole, so uninstall the release.
    namespace.helm(helm4, "uninstall", "admin", "--ignore-not-found", "--wait")
    client.kubectl("-n", namespace.name, "delete", "rolebinding", USER)


def test_operator_is_no_administrator(lab_operators: Operators) -> None:
    assert _operator_may("create", "jobs") == "yes"
    assert _operator_may("create", "deployments") == "no"


def _operator_may(verb: str, kind: str) -> str:
    operator = "--as=system:serviceaccount:mpi-operator:mpi-operator"
    question = [str(lifecycle.BIN_DIR / "kubectl"), "auth", "can-i", verb, kind, operator]
    return subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip()


def test_kubeflow_edit_knows_no_kubeflow_jobs_yet(kube_cluster: Cluster) -> None:
    role = kube_cluster.kubectl("get clusterrole kubeflow-edit")

    granted = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert "pods" in granted
    assert not granted & {"mpijobs", "*"}


def test_kubeflow_edit_user_is_refused_before_and_allowed_after(editor: Namespace, helm4: Path) -> None:
    job = ["install", "run1", str(CHART), "--set", "workers.gpus=0", "--kube-as-user", USER]

    refused = editor.helm(helm4, *job)
    editor.helm(helm4, "uninstall", "run1", "--ignore-not-found")
    admin = editor.helm(helm4, "install", "admin", str(CHART), *ONLY_THE_ROLE)
    wait_until("the aggregation", lambda: _may("create", "mpijobs", editor), pause=0.5)
    allowed = editor.helm(helm4, *job)

    assert refused.returncode != 0
    assert 'cannot get resource "mpijobs"' in refused.stderr
    assert admin.returncode == 0, admin.stderr
    assert allowed.returncode == 0, allowed.stderr
    assert not _may("create", "pytorchjobs", editor)
    assert not _may("update", "mpijobs", editor, "--subresource=status")
    editor.helm(helm4, "uninstall", "admin", "--wait")
    wait_until("the role's end", lambda: not _may("create", "mpijobs", editor), pause=0.5)


def test_role_alone_makes_no_job(namespace: Namespace, helm3: Path) -> None:
    installed = namespace.helm(helm3, "install", "run1", str(CHART), *ONLY_THE_ROLE)

    assert installed.returncode == 0, installed.stderr
    assert namespace.get("mpijobs,jobs,serviceaccounts -l app.kubernetes.io/instance=run1") == []


def test_hand_edit_of_an_aggregated_role_is_lost(lab_operators: Operators) -> None:
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["create"]}
    patch = json.dumps([{"op": "add", "path": "/rules/-", "value": rule}])

    edited = client.kubectl("patch", "clusterrole", "kubeflow-edit", "--type=json", "-p", patch, "-o", "json")

    assert "mpijobs" in edited
    wait_until(
        "the edit's loss", lambda: "mpijobs" not in client.kubectl("get", "clusterrole", "kubeflow-edit", "-o", "json")
    )


def _may(verb: str, kind: str, namespace: Namespace, *flags: str) -> bool:
    question = [
        str(lifecycle.BIN_DIR / "kubectl"),
        "-n",
        namespace.name,
        "auth",
        "can-i",
        verb,
        kind,
        f"--as={USER}",
        *flags,
    ]
    return subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip() == "yes"
