"""Test a run under Flux: refused changes, missing capacity, a short timeout of Flux, a suspended HelmRelease."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cluster import client, namespaces
from lab.cluster.client import kubectl
from lab.gitops import flux
from lab.waiting import wait_until
from tests.cluster.gitops.commits import TOO_MANY, job, run_values
from tests.cluster.gitops.flux_release import Release, condition
from tests.cluster.testbed import Namespace
from tests.cluster.training import head, wait_for_checkpoint, wait_for_step

pytestmark = pytest.mark.full
SECONDS = 300
SHORT = "30s"
RETRY = {"strategy": {"name": "RetryOnFailure", "retryInterval": "10s"}}
NO_RETRIES, RETRIES = ({"remediation": {"retries": retries}} for retries in (0, 3))


@pytest.fixture
def steady(helm_controller: str) -> Iterator[str]:
    """Return helm-controller's version.

    After the test, assert that helm-controller is still the same process. Nothing restarts helm-controller after a
    crash.
    """
    process = namespaces.pid(flux.HELM_CONTROLLER)
    yield helm_controller
    assert process
    assert namespaces.pid(flux.HELM_CONTROLLER) == process


@pytest.mark.parametrize("policy", [NO_RETRIES, RETRIES, RETRY], ids=["retries-0", "retries-3", "retry-on-failure"])
def test_refused_change_leaves_the_running_job(steady: str, namespace: Namespace, policy: dict[str, Any]) -> None:
    release = Release.new(namespace, run_values(2), steady, **_policies(policy))
    assert release.commit()["status"] == "True"
    wait_for_checkpoint(namespace)
    first, before = job(namespace), head(namespace)

    refused = release.commit(run_values(TOO_MANY))

    assert refused["status"] == "False"
    # If Flux retried the refused change, it would do so within this time.
    time.sleep(30)
    after = wait_for_checkpoint(namespace, before)
    assert before
    assert (after.generation, job(namespace)) == (before.generation, first)
    assert release.commit(run_values(1))["status"] == "True"
    wait_for_step(namespace, ranks=1)
    assert job(namespace) == first


def test_run_waits_for_room(steady: str, namespace: Namespace) -> None:
    _take_gpus(namespace, 7)
    release = Release.new(namespace, run_values(2), steady, **_policies(RETRY))
    assert release.commit()["status"] == "False"
    assert namespace.get("mpijobs") == []

    kubectl("-n", namespace.name, "delete", "pod", "other", "--grace-period=1")

    wait_for_checkpoint(namespace)
    wait_until("Ready", lambda: release.refresh() == "True", seconds=SECONDS, pause=1)


def test_training_longer_than_the_timeout_is_no_failure(steady: str, namespace: Namespace) -> None:
    release = Release.new(namespace, run_values(2), steady, timeout=SHORT)
    assert release.commit()["status"] == "True"
    wait_for_checkpoint(namespace)
    first = job(namespace)

    time.sleep(60)

    assert release.refresh() == "True"
    assert job(namespace) == first


def test_suspended_release_leaves_the_run_as_it_is(steady: str, namespace: Namespace) -> None:
    release = Release.new(namespace, run_values(2), steady)
    assert release.commit()["status"] == "True"
    before, first = wait_for_checkpoint(namespace), job(namespace)
    release.suspend(True)
    release.push(run_values(3))
    time.sleep(20)
    assert wait_for_checkpoint(namespace, before).generation == before.generation

    release.suspend(False)

    wait_for_step(namespace, ranks=3)
    assert job(namespace) == first


def test_values_that_the_schema_refuses_leave_the_running_job(steady: str, namespace: Namespace) -> None:
    release = Release.new(namespace, run_values(2), steady)
    assert release.commit()["status"] == "True"
    before, first = wait_for_checkpoint(namespace), job(namespace)

    refused = release.commit(run_values(2) + "wrokers: {replicas: 3}\n")

    assert refused["status"] == "False"
    assert "wrokers" in refused["message"]
    assert wait_for_checkpoint(namespace, before).generation == before.generation
    assert job(namespace) == first


def test_repository_that_is_away_leaves_the_running_job(steady: str, namespace: Namespace) -> None:
    release = Release.new(namespace, run_values(2), steady)
    assert release.commit()["status"] == "True"
    before, first = wait_for_checkpoint(namespace), job(namespace)

    with release.repository.away():
        release.look_at_git()
        wait_until("an error", lambda: _source(namespace)["status"] == "False", seconds=SECONDS, pause=0.5)
        after = wait_for_checkpoint(namespace, before)

    assert (after.generation, job(namespace)) == (before.generation, first)
    assert release.commit(run_values(3))["status"] == "True"
    wait_for_step(namespace, ranks=3)


def _policies(policy: dict[str, Any]) -> dict[str, Any]:
    return {action: {"disableWaitForJobs": True, **policy} for action in ("install", "upgrade")}


def _source(namespace: Namespace) -> dict[str, str]:
    """Return the condition Ready of the GitRepository `distrain`."""
    found = json.loads(kubectl("-n", namespace.name, "get", "gitrepositories", "distrain", "-o", "json"))
    return condition(found["status"])


def _take_gpus(namespace: Namespace, count: int) -> None:
    """Create a pod that occupies `count` GPUs."""
    container = {
        "name": "other",
        "image": "docker.io/distrain/tensorflow:0.1.0",
        "command": ["sleep", "3600"],
        "resources": {"limits": {"nvidia.com/gpu": count, "cpu": "10m", "memory": "16Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    metadata = {"name": "other", "namespace": namespace.name}
    spec = {"containers": [container], "securityContext": security}
    client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    kubectl("-n", namespace.name, "wait", "--for=condition=Ready", "pod/other", "--timeout=120s")
