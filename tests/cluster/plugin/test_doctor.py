"""Test `doctor` for an admin, and for a user before and after an admin applies the printed RBAC objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import client
from lab.paths import CHART
from tests.cluster.testbed import Namespace
from tests.matrix import one_of

USER = "jane"
JOB = ["install", "run1", str(CHART), "--set", "workers.gpus=0"]


@pytest.fixture
def as_user(namespace: Namespace, tmp_path: Path) -> Iterator[list[str]]:
    """Create a ServiceAccount without permissions, and return the flags that make a command use it."""
    yield namespace.kubeconfig_of(USER, tmp_path)
    client.kubectl("-n", namespace.name, "delete", "serviceaccount", USER)


def test_admin_is_told_what_the_lab_has(namespace: Namespace) -> None:
    found = _doctor(namespace, code=0)

    assert found["jobs"] == ["MPIJob", "PyTorchJob", "TFJob", "MXJob", "Plain"]
    assert found["grants"] == []
    assert _details(found, "mpi-operator")["version"] == "0.8.0"
    assert _details(found, "training-operator")["version"] == "1.8.1"
    assert _details(found, "nvidia.com/gpu")["allocatable"] > 0
    assert _details(found, f"namespace {namespace.name}")["level"] == "restricted"


@pytest.mark.parametrize("helm", one_of(["helm4", "helm3"]), indirect=True)
def test_printed_grants_are_enough_to_install(namespace: Namespace, as_user: list[str], helm: Path) -> None:
    refused = namespace.helm(helm, *JOB, *as_user)
    grants = yaml.safe_dump_all(_doctor(namespace, *as_user, code=11)["grants"])

    client.kubectl("apply", "-f", "-", stdin=grants)
    try:
        found = _doctor(namespace, *as_user, code=0)
        allowed = namespace.helm(helm, *JOB, *as_user)
        removed = namespace.helm(helm, "uninstall", "run1", "--wait", *as_user)
    finally:
        # Deleting the namespace would not delete the ClusterRole.
        client.kubectl("delete", "-f", "-", stdin=grants)

    assert refused.returncode != 0
    assert " is forbidden: User " in refused.stderr
    assert found["grants"] == []
    assert allowed.returncode == 0, allowed.stderr
    assert removed.returncode == 0, removed.stderr


def _doctor(namespace: Namespace, *flags: str, code: int) -> dict[str, Any]:
    told = namespace.distrain("doctor", "-o", "json", *flags)
    assert told.returncode == code, told.stdout + told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def _details(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(dict(finding["details"]) for finding in found["findings"] if finding["name"] == name)
