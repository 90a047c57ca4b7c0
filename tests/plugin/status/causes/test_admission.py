"""Test what `status` says of pods that the API server refuses, with the words of its admission plugins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import JOB_UID, SMALLER, event, serve_events, told
from tests.plugin.status.runs import MPI, NAMESPACE, PLAIN, PYTORCH, pod, serve, unplaced

FORBIDDEN = 'Error creating: pods "run1-worker-1" is forbidden: '


@pytest.mark.parametrize(
    ("answer", "why", "then"),
    [
        pytest.param(
            f"{FORBIDDEN}exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: "
            "requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
            "quota gpus of the namespace leaves no room: requested requests.nvidia.com/gpu=1, used "
            "requests.nvidia.com/gpu=8, limited requests.nvidia.com/gpu=8",
            f"free that much in the namespace, {SMALLER}, or have the quota raised",
            id="quota",
        ),
        pytest.param(
            f"{FORBIDDEN}exceeded quota: cpus, requested: pods=1,requests.cpu=100m, used: pods=0,requests.cpu=0, "
            "limited: pods=5,requests.cpu=50m",
            "quota cpus of the namespace leaves no room: requested pods=1,requests.cpu=100m, used "
            "pods=0,requests.cpu=0, limited pods=5,requests.cpu=50m",
            "ask for less, or have the quota raised: one pod alone is more than it allows",
            id="quota-smaller-than-a-pod",
        ),
        pytest.param(
            f"{FORBIDDEN}failed quota: small: must specify limits.memory for: worker",
            "quota small of the namespace asks each container for limits.memory for: worker",
            "set workers.cpu or workers.memory, or have a LimitRange of the namespace set it",
            id="quota-without-limits",
        ),
        pytest.param(
            f"{FORBIDDEN}maximum memory usage per Container is 1Gi, but limit is 2Gi",
            "the LimitRange of the namespace refuses the workers: maximum memory usage per Container is 1Gi, but limit "
            "is 2Gi",
            "choose workers.memory within it, or have the LimitRange changed",
            id="limit-range",
        ),
        pytest.param(
            'Error creating: pods "run1-1234abcd-launcher-x7" is forbidden: maximum memory usage per Pod is 1Gi, but '
            "limit is 2Gi",
            "the LimitRange of the namespace refuses the launcher: maximum memory usage per Pod is 1Gi, but limit is "
            "2Gi",
            "choose launcher.memory within it, or have the LimitRange changed",
            id="limit-range-of-the-launcher",
        ),
        pytest.param(
            f'{FORBIDDEN}violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "worker" must'
            " set securityContext.runAsNonRoot=true)",
            'the namespace enforces Pod Security "restricted": runAsNonRoot != true (pod or container "worker" must set'
            " securityContext.runAsNonRoot=true)",
            "remove that from the values, set podSecurity to restricted, or run it in another namespace",
            id="pod-security",
        ),
        pytest.param(
            f'{FORBIDDEN}error looking up service account team/robot: serviceaccount "robot" not found',
            "serviceAccountName: there is no ServiceAccount robot in the namespace",
            "create it, or correct serviceAccountName",
            id="service-account",
        ),
        pytest.param(
            f"{FORBIDDEN}no PriorityClass with name high was found",
            "priorityClassName: the cluster has no PriorityClass high",
            "correct it: `kubectl get priorityclasses` lists the existing ones",
            id="priority-class",
        ),
        pytest.param(
            f'{FORBIDDEN}pod rejected: RuntimeClass "nvidia" not found',
            "workers.podSpec.runtimeClassName: the cluster has no RuntimeClass nvidia",
            "correct it: `kubectl get runtimeclasses` lists the existing ones",
            id="runtime-class",
        ),
        pytest.param(
            'Error creating: admission webhook "validate.kyverno.svc" denied the request: an image must have a digest',
            "the cluster's rules (validate.kyverno.svc) refuse the pods: an image must have a digest",
            "change the values so that the pods keep to the rule, or ask those who run validate.kyverno.svc",
            id="webhook-denies",
        ),
        pytest.param(
            f"{FORBIDDEN}ValidatingAdmissionPolicy 'digests' with binding 'all' denied request: give a digest",
            "the cluster's rules (digests) refuse the pods: give a digest",
            "change the values so that the pods keep to the rule, or ask those who run digests",
            id="policy-denies",
        ),
        pytest.param(
            'Error creating: Internal error occurred: failed calling webhook "inject.istio.io": failed to call webhook:'
            ' Post "https://istiod.istio-system.svc:443": dial tcp 10.0.0.9:443: connect: connection refused',
            "the cluster's webhook inject.istio.io does not answer: failed to call webhook: Post "
            '"https://istiod.istio-system.svc:443": dial tcp 10.0.0.9:443: connect: connection refused',
            "wait; if this lasts, ask those who run it",
            id="webhook-down",
        ),
        pytest.param(
            f"{FORBIDDEN}unable to create new content in namespace team because it is being terminated",
            "the namespace is being deleted",
            "install the run in another namespace",
            id="namespace-terminating",
        ),
        pytest.param(
            'Error creating: pods is forbidden: User "system:serviceaccount:kubeflow:training-operator" cannot create '
            'resource "pods" in API group "" in the namespace "team"',
            "the operator (system:serviceaccount:kubeflow:training-operator) may not create pods",
            "install the operator's roles again",
            id="operators-rights",
        ),
        pytest.param(
            f"{FORBIDDEN}something new",
            "the API server refuses run1-worker-1: something new",
            "correct what it names",
            id="unknown",
        ),
    ],
)
def test_pod_that_the_api_server_refuses_is_explained(
    api: FakeApi, status: Run, answer: str, why: str, then: str
) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0)])
    serve_events(api, event(JOB_UID, "FailedCreatePod", answer))

    assert told(status("run1"))[1:] == (why, then)


def _quota(resource: str, used: int, limit: int) -> str:
    amounts = f"requested: {resource}=1, used: {resource}={used}, limited: {resource}={limit}"
    return f"{FORBIDDEN}exceeded quota: few, {amounts}"


@pytest.mark.parametrize(
    ("job", "pods", "limit", "then"),
    [
        pytest.param(MPI, 1, 1, "have the quota raised: even the smallest run needs more than it allows", id="least"),
        pytest.param(MPI, 1, 2, f"free that much in the namespace, {SMALLER}, or have the quota raised", id="others"),
        pytest.param(PYTORCH, 1, 1, f"{SMALLER}, or have the quota raised", id="own-pods-alone"),
    ],
)
def test_advice_on_a_quota_of_pods_is_possible(
    api: FakeApi, status: Run, job: Any, pods: int, limit: int, then: str
) -> None:
    serve(api, job, pods=[pod("worker", number) for number in range(pods)])
    serve_events(api, event(JOB_UID, "FailedCreatePod", _quota("pods", limit, limit)))

    assert told(status("run1"))[2] == then


def test_refused_worker_of_a_plain_run_is_explained_although_its_key_is_made(api: FakeApi, status: Run) -> None:
    keygen, *others = PLAIN
    done = {**keygen, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    serve(api, done, *others, pods=[pod("launcher")])
    worker = next(each for each in others if each["metadata"]["name"].endswith("-worker"))
    answer = f"{FORBIDDEN}no PriorityClass with name high was found"
    serve_events(api, event(worker["metadata"]["uid"], "FailedCreate", answer))

    assert told(status("run1"))[1] == "priorityClassName: the cluster has no PriorityClass high"


def test_worker_that_mpi_operator_cannot_create_is_explained(api: FakeApi, status: Run) -> None:
    serve(api, MPI)
    answer = (
        'worker pod created failed: pods "run1-1234abcd-worker-0" is forbidden: no PriorityClass with name a was found'
    )
    serve_events(api, event(JOB_UID, "MPIJobFailed", answer))

    assert told(status("run1"))[1] == "priorityClassName: the cluster has no PriorityClass a"


def test_launcher_that_is_refused_is_explained_by_the_events_of_its_job(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=[pod("worker", 0), pod("worker", 1)])
    launcher = {"metadata": {"name": "run1-1234abcd-launcher", "uid": "uid-launcher-job"}}
    api.answers["/apis/batch/v1/namespaces/team/jobs/run1-1234abcd-launcher"] = launcher
    limit = "maximum memory usage per Pod is 1Gi, but limit is 2Gi"
    answer = f'Error creating: pods "run1-1234abcd-launcher-x7" is forbidden: {limit}'
    serve_events(api, event("uid-launcher-job", "FailedCreate", answer))

    assert told(status("run1"))[2] == "choose launcher.memory within it, or have the LimitRange changed"
    assert f"GET {NAMESPACE}/events?fieldSelector=type%3DWarning%2CinvolvedObject.uid%3Duid-launcher-job" in " ".join(
        api.requests
    )


def test_refusal_of_before_is_not_told_once_all_pods_are_there(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), unplaced("worker", 1)])
    serve_events(api, event(JOB_UID, "FailedCreatePod", f"{FORBIDDEN}no PriorityClass with name high was found"))

    assert told(status("run1"))[1].startswith("run1-worker-1: 0/3 nodes")


def test_newest_refusal_counts(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH)
    newer = event(
        JOB_UID, "FailedCreatePod", f"{FORBIDDEN}no PriorityClass with name b was found", "2026-01-01T00:00:09Z"
    )
    serve_events(api, newer, event(JOB_UID, "FailedCreatePod", f"{FORBIDDEN}no PriorityClass with name a was found"))

    assert told(status("run1"))[1] == "priorityClassName: the cluster has no PriorityClass b"
