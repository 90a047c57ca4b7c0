"""Test that Argo CD and Flux manage a run of each kind from its installation to its removal.

The tests make each change with a git commit.

The run trains. While the run trains, no pod restarts after a refresh, or after a commit that changes no value. The run
is rescaled twice, then suspended and resumed, and then trains to its end. After the end of the run, a user deletes its
job by hand. Argo CD or Flux creates a new job, which ends at once because the run is finished.
"""

from __future__ import annotations

import pytest

from lab.cluster.client import kubectl
from lab.waiting import wait_until
from tests.cluster.gitops import argocd_application
from tests.cluster.gitops.argocd_application import Application
from tests.cluster.gitops.commits import kind_values
from tests.cluster.gitops.flux_release import Release
from tests.cluster.runs_of_kinds import KINDS, Kind, uids, wait_for_ranks
from tests.cluster.testbed import LAUNCHER_JOB, Namespace
from tests.cluster.training import head, wait_for_checkpoint

pytestmark = pytest.mark.full
# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"
# When a run of these kinds is rescaled, its job stays. For other kinds, a rescale replaces the job.
LIVE = ("elastic", "mpijob", "plain")
SECONDS = 400
REFRESHES = 10


@pytest.mark.parametrize("name", KINDS)
def test_argo_cd_owns_a_run_of_each_kind(
    argo_cd: None, namespace: Namespace, on_s3: list[str], all_images: None, name: str
) -> None:
    kind = KINDS[name]
    application = Application.new(namespace, kind_values(kind))
    wait_for_checkpoint(namespace, seconds=SECONDS)
    training, suspended, ended = (("Synced", health) for health in ("Progressing", "Suspended", "Healthy"))
    wait_until("Progressing", lambda: application.state() == training, seconds=SECONDS, pause=1)
    pods = _pods(namespace)
    assert [application.refresh() for _ in range(REFRESHES)] == [training] * REFRESHES
    assert application.commit_unchanged(kind_values(kind) + "# a comment\n") == training
    assert _pods(namespace) == pods

    for size in (3, 2):
        jobs = uids(namespace, kind)
        assert application.commit(kind_values(kind, **{"workers.replicas": size}))["phase"] == "Succeeded"
        _assert_rescaled(namespace, name, jobs, size)
    assert application.refresh() == training

    assert application.commit(kind_values(kind, **{"job.suspend": True}))["phase"] == "Succeeded"
    _assert_no_pods(namespace)
    wait_until("Suspended", lambda: application.state() == suspended, seconds=SECONDS, pause=1)

    assert application.commit(kind_values(kind, **{"trainer.epochs": 1}))["phase"] == "Succeeded"
    assert _outcome(namespace, kind) == "Succeeded"
    wait_until("Healthy", lambda: application.state() == ended, seconds=SECONDS, pause=1)
    assert [application.refresh() for _ in range(REFRESHES)] == [ended] * REFRESHES

    kubectl("-n", namespace.name, "delete", kind.resources, "--all")
    _assert_ends_without_training(namespace, kind)
    wait_until("Healthy again", lambda: application.state() == ended, seconds=SECONDS, pause=1)
    argocd_application.delete_all()
    _assert_nothing_left(namespace, kind)


@pytest.mark.parametrize("name", KINDS)
def test_flux_owns_a_run_of_each_kind(
    helm_controller: str, namespace: Namespace, on_s3: list[str], all_images: None, name: str
) -> None:
    kind = KINDS[name]
    drift = {"driftDetection": {"mode": "enabled"}}
    release = Release.new(namespace, kind_values(kind), helm_controller, **drift)
    assert release.commit()["status"] == "True"
    wait_for_checkpoint(namespace, seconds=SECONDS)
    pods = _pods(namespace)
    assert [release.refresh() for _ in range(REFRESHES)] == ["True"] * REFRESHES
    assert release.commit(kind_values(kind) + "# a comment\n")["status"] == "True"
    assert _pods(namespace) == pods

    for size in (3, 2):
        jobs = uids(namespace, kind)
        assert release.commit(kind_values(kind, **{"workers.replicas": size}))["status"] == "True"
        _assert_rescaled(namespace, name, jobs, size)

    assert release.commit(kind_values(kind, **{"job.suspend": True}))["status"] == "True"
    _assert_no_pods(namespace)

    assert release.commit(kind_values(kind, **{"trainer.epochs": 1}))["status"] == "True"
    assert _outcome(namespace, kind) == "Succeeded"
    assert [release.refresh() for _ in range(REFRESHES)] == ["True"] * REFRESHES
    assert release.drifts() == []

    kubectl("-n", namespace.name, "delete", kind.resources, "--all")
    release.refresh()
    _assert_ends_without_training(namespace, kind)
    assert release.drifts()
    release.delete()
    _assert_nothing_left(namespace, kind)


def _outcome(namespace: Namespace, kind: Kind) -> str:
    """Wait until the run has ended, and return its result."""
    return namespace.wait_for_end(LAUNCHER_JOB if kind is KINDS["plain"] else kind.resources, seconds=SECONDS)


def _pods(namespace: Namespace) -> list[str]:
    """Return the uid of each pod of the run."""
    return sorted(pod["metadata"]["uid"] for pod in namespace.get("pods -l app.kubernetes.io/component"))


def _assert_rescaled(namespace: Namespace, name: str, jobs: list[str], size: int) -> None:
    """Assert that the run continues with this number of workers, in the same job if its kind supports this."""
    wait_for_ranks(namespace, KINDS[name], size, seconds=SECONDS)
    wait_for_checkpoint(namespace, head(namespace), seconds=SECONDS)
    assert (uids(namespace, KINDS[name]) == jobs) == (name in LIVE)


def _assert_no_pods(namespace: Namespace) -> None:
    def alive() -> bool:
        pods = namespace.get("pods -l app.kubernetes.io/component")
        return any(pod["status"]["phase"] in ("Pending", "Running") for pod in pods)

    wait_until("the end of all pods", lambda: not alive(), seconds=SECONDS, pause=0.5)


def _assert_ends_without_training(namespace: Namespace, kind: Kind) -> None:
    """Assert that a new job of a finished run ends at once, without training."""
    before = head(namespace)
    wait_until("a new job", lambda: bool(uids(namespace, kind)), seconds=SECONDS, pause=0.5)
    assert _outcome(namespace, kind) == "Succeeded"
    after = head(namespace)
    assert before
    assert after
    assert (after.samples, after.state) == (before.samples, "finished")


def _assert_nothing_left(namespace: Namespace, kind: Kind) -> None:
    assert uids(namespace, kind) == []
    wait_until("the pods' end", lambda: not namespace.get("pods"), seconds=SECONDS, pause=0.5)
