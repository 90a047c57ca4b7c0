"""Test `check` as a user who may only list nodes and pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import client
from tests.cluster.testbed import Namespace

USER = "reader"


@pytest.fixture
def as_reader(namespace: Namespace, tmp_path: Path) -> Iterator[list[str]]:
    """Create a ServiceAccount that may only list nodes and pods, and return the flags that make a command use it."""
    role = f"{namespace.name}-{USER}"
    account = f"--serviceaccount={namespace.name}:{USER}"
    client.kubectl("create", "clusterrole", role, "--verb=list", "--resource=nodes,pods")
    client.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", account)
    yield namespace.kubeconfig_of(USER, tmp_path)
    # Deleting the namespace would not delete the ClusterRole and its binding.
    client.kubectl("delete", f"clusterrolebinding/{role}", f"clusterrole/{role}")
    client.kubectl("-n", namespace.name, "delete", "serviceaccount", USER)


def test_check_answers_and_says_what_it_could_not_see(namespace: Namespace, as_reader: list[str]) -> None:
    told = namespace.distrain("check", "run1", "--set", "workers.gpus=1", "-o", "json", *as_reader)

    assert told.returncode == 0, told.stdout + told.stderr
    answer = json.loads(told.stdout)
    assert answer["verdict"] == "fits"
    assert answer["gpus"]["total"] > 0
    assert f"ResourceQuotas of namespace {namespace.name} (you may not read it)" in answer["unseen"]


def test_derive_spreads_gpus_over_the_nodes(namespace: Namespace, as_reader: list[str], tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("gpus: 2\n")

    told = namespace.distrain("derive", "-f", str(values), "-o", "json", *as_reader)

    assert told.returncode == 0, told.stderr
    workers = json.loads(told.stdout)["workers"]
    assert workers["replicas"] * workers["gpus"] == 2
