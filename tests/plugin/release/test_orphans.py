"""Test finding orphans: running jobs and pods that Helm created but that the last revision does not contain."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from distrain import kube
from distrain.apiserver.target import Target
from distrain.errors import ForbiddenError
from distrain.kube.resource import Resource
from distrain.release import orphans
from tests.plugin.program import Run
from tests.plugin.release.recorded import Recorded

LABELS = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
BY_HELM = {"meta.helm.sh/release-name": "run1"}
NAMED = Resource("kubeflow.org/v1", "MPIJob", "run1")


class FakeCluster:
    """A fake cluster that serves two versions of MPIJob, and whose user may not list Jobs."""

    target = Target("config", "lab", "team", given=("", "lab"))

    def __init__(self, jobs: list[kube.Workload], pods: list[kube.Pod]) -> None:
        self.jobs, self.pods = jobs, pods

    def served(self, _: str) -> list[str]:
        return ["kubeflow.org/v1", "kubeflow.org/v1/MPIJob", "kubeflow.org/v2beta1", "kubeflow.org/v2beta1/MPIJob"]

    def workloads(self, _: str, kind: str, __: str) -> list[kube.Workload]:
        if kind == "Job":
            raise ForbiddenError("jobs cannot be read")
        return self.jobs

    def chart_pods(self, _: str) -> list[kube.Pod]:
        return self.pods


def _job(name: str = "run1-old", *conditions: kube.Condition, **metadata: Any) -> kube.Workload:
    found = kube.TemplateMetadata(**{"name": name, "labels": LABELS, "annotations": BY_HELM, **metadata})
    return kube.Workload(found, status=kube.WorkloadStatus(list(conditions)))


def _pod(phase: str = "Running", **metadata: Any) -> kube.Pod:
    return kube.Pod(kube.Metadata(**{"name": "p", "labels": LABELS, **metadata}), status=kube.PodStatus(phase=phase))


def _found(jobs: list[kube.Workload], pods: list[kube.Pod]) -> list[str]:
    cluster: Any = FakeCluster(jobs, pods)
    return [found.words for found in orphans.of_release(cluster, "run1", "team", [NAMED])]


def test_job_and_pod_that_nobody_ends_are_reported_once_with_what_ends_them() -> None:
    known = "runs, and Helm no longer knows it: `helm uninstall` leaves it there"
    told = f"{known}; `kubectl --namespace team --context lab delete"

    assert _found([_job()], [_pod()]) == [
        f"run1: MPIJob run1-old {told} mpijobs.kubeflow.org run1-old` ends it",
        f"run1: Pod p {told} pods p` ends it",
    ]


def test_orphan_is_found_beside_a_job_that_has_ended() -> None:
    ended = _job("run1-first", kube.Condition(type="Succeeded", status="True"))

    assert [words.partition(" runs")[0] for words in _found([ended, _job()], [])] == ["run1: MPIJob run1-old"]


def test_pods_that_the_user_may_not_list_are_no_orphans() -> None:
    cluster: Any = FakeCluster([_job()], [])
    cluster.chart_pods = Mock(side_effect=ForbiddenError("pods cannot be read"))

    found = orphans.of_release(cluster, "run1", "team", [NAMED])

    assert [orphan.resource.kind for orphan in found] == ["MPIJob"]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(_job("run1"), id="named-by-the-last-revision-in-another-version"),
        pytest.param(_job("a", kube.Condition(type="Succeeded", status="True")), id="has-succeeded"),
        pytest.param(_job("a", kube.Condition(type="Failed", status="True")), id="has-failed"),
        pytest.param(_job(deletion_timestamp="2026-01-01T00:00:00Z"), id="is-being-deleted"),
        pytest.param(_job(owner_references=[kube.ObjectReference(uid="o")]), id="has-an-owner"),
        pytest.param(_job(annotations={**BY_HELM, "helm.sh/hook": "test"}), id="hook-of-helm"),
        pytest.param(_job(annotations={}), id="made-by-something-else"),
        pytest.param(_job(annotations={"meta.helm.sh/release-name": "run2"}), id="of-another-release"),
        pytest.param(_job(labels={}), id="of-another-chart"),
    ],
)
def test_job_that_somebody_knows_is_no_orphan(job: kube.Workload) -> None:
    assert _found([job], []) == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(_pod("Succeeded"), id="has-ended"),
        pytest.param(_pod(owner_references=[kube.ObjectReference(uid="o")]), id="has-an-owner"),
        pytest.param(_pod(annotations={"helm.sh/hook": "pre-upgrade"}), id="hook-of-helm"),
        pytest.param(_pod(labels={**LABELS, "app.kubernetes.io/instance": "run2"}), id="of-another-release"),
    ],
)
def test_pod_that_somebody_knows_is_no_orphan(pod: kube.Pod) -> None:
    assert _found([], [pod]) == []


@pytest.mark.either_helm
@pytest.mark.usefixtures("signals")
def test_job_that_an_upgrade_would_take_over_is_refused(run: Run, running: Recorded) -> None:
    metadata = {**running.job["metadata"], "name": "run1-plain-launcher"}
    metadata["annotations"] = {"meta.helm.sh/release-name": "run1"}
    running.api.answers["/apis/batch/v1/namespaces/team/jobs/run1-plain-launcher"] = {"metadata": metadata}

    outcome = run("upgrade", "run1", "--reuse-values", "--set", "job.kind=Plain", "--yes")

    deletion = "delete it with `kubectl --namespace team delete jobs.batch run1-plain-launcher`, then try again"
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].endswith(f"Helm would take it over with its old pods; {deletion}")
    assert running.upgrades == []
