"""Test that the real Flux manages a run with the files from docs/flux. The tests make each change with a git commit."""

from __future__ import annotations

import pytest

from lab.cluster import namespaces
from lab.cluster.client import kubectl
from lab.gitops import flux
from lab.waiting import wait_until
from tests.cluster.gitops.commits import TOO_MANY, job, run_values
from tests.cluster.gitops.flux_release import Release
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    assert_no_step_was_lost,
    head,
    refresh_hostfile,
    wait_for_checkpoint,
    wait_for_step,
)


@pytest.fixture
def release(helm_controller: str, namespace: Namespace) -> Release:
    """Create a HelmRelease that trains a run of two workers."""
    return Release.new(namespace, run_values(2), helm_controller)


def test_helm_release_trains_rescales_and_outlives_a_refused_commit(release: Release, namespace: Namespace) -> None:
    process = namespaces.pid(flux.HELM_CONTROLLER)
    ready = release.commit()
    assert ready["status"] == "True", ready
    wait_for_checkpoint(namespace)
    first = job(namespace)

    grown = release.commit(run_values(3))
    assert grown["status"] == "True", grown
    refresh_hostfile(namespace, 3)
    wait_for_step(namespace, ranks=3)
    assert job(namespace) == first
    assert_no_step_was_lost(namespace)

    before = head(namespace)
    refused = release.commit(run_values(TOO_MANY))
    assert refused["status"] == "False"
    assert "preflight" in refused["message"]
    assert job(namespace) == first
    after = wait_for_checkpoint(namespace, before)
    assert before
    assert after.generation == before.generation

    shrunk = release.commit(run_values(1))
    assert shrunk["status"] == "True", shrunk
    refresh_hostfile(namespace, 1)
    wait_for_step(namespace, ranks=1)
    assert job(namespace) == first
    # helm-controller has not crashed, because it is still the same process: nothing restarts it after a crash.
    assert process
    assert namespaces.pid(flux.HELM_CONTROLLER) == process

    kubectl("-n", namespace.name, "delete", "helmreleases", "run1", "--timeout=300s")
    wait_until("the end of everything", lambda: not namespace.get("mpijobs,pods"), pause=0.5)
