"""Test what `status` reports about runs that a queue holds back, with real messages of Kueue and Volcano."""

from __future__ import annotations

import json

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import JOB
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import SMALLER, serve_events, told
from tests.plugin.status.causes.explained import event as event_of
from tests.plugin.status.runs import LABELS, NAMESPACE, PYTORCH, changed, live, renamed, serve, unplaced

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/namespaces/team/workloads"
QUEUED = changed(live(PYTORCH, labels={**LABELS, "kueue.x-k8s.io/queue-name": "gpus"}), suspend=True)
FLAVORS = "couldn't assign flavors to pod set worker: "


@pytest.mark.parametrize(
    ("message", "then"),
    [
        pytest.param(
            "LocalQueue gpus doesn't exist",
            "create the LocalQueue in this namespace, or correct gang.queue",
            id="no-local-queue",
        ),
        pytest.param(
            "ClusterQueue team doesn't exist",
            "the queue names a ClusterQueue that does not exist: ask those who run Kueue",
            id="no-cluster-queue",
        ),
        pytest.param(
            "ClusterQueue team is inactive",
            "wait, or ask those who run the queue: it admits nothing now",
            id="inactive",
        ),
        pytest.param(
            f"{FLAVORS}insufficient quota for nvidia.com/gpu in flavor a, request > maximum capacity (16 > 8)",
            f"the queue never has so much: {SMALLER}, or choose another queue",
            id="too-large",
        ),
        pytest.param(
            f"{FLAVORS}insufficient unused quota for nvidia.com/gpu in flavor a, 4 more needed",
            "wait: the queue starts the run when there is room",
            id="full",
        ),
        # kubernetes-sigs/kueue#3158
        pytest.param(
            f"{FLAVORS}untolerated taint {{gpu true NoSchedule <nil>}} in flavor a",
            "tolerate it with workers.tolerations, or choose another queue",
            id="taint",
        ),
        pytest.param(
            f"{FLAVORS}flavor a doesn't match node affinity",
            "correct workers.nodeSelector or workers.affinity, or choose another queue",
            id="affinity",
        ),
        # kubernetes-sigs/kueue#5039
        pytest.param(
            f"{FLAVORS}no topology domains at level: kubernetes.io/hostname",
            "ask those who run the queue: no node of its flavor has this label",
            id="no-topology",
        ),
        # kubernetes-sigs/kueue#3482
        pytest.param(
            f'{FLAVORS}topology "gke-default" allows to fit only 18 out of 40 pod(s)',
            f"wait, ask for a wider topology, or {SMALLER}",
            id="topology",
        ),
        # kubernetes-sigs/kueue#1942
        pytest.param(
            "Preempted to accommodate a workload (UID: 7c2e) in the ClusterQueue",
            "wait: another run took its place; with checkpoint.uri it goes on where it was",
            id="preempted",
        ),
        # kubernetes-sigs/kueue#2291
        pytest.param(
            "Exceeded the PodsReady timeout team/pytorchjob-run1-1234abcd-992ea",
            "wait: the queue tries again; `kubectl --namespace team get events` says what kept the pods from being "
            "ready",
            id="pods-not-ready",
        ),
    ],
)
def test_what_kueue_says_has_a_next_step(api: FakeApi, status: Run, message: str, then: str) -> None:
    serve(api, QUEUED)
    conditions = [{"type": "QuotaReserved", "status": "False", "message": message}]
    api.answers[WORKLOADS] = [{"metadata": {"name": "w"}, "status": {"conditions": conditions}}]

    assert told(status("run1")) == ("Queued, in queue gpus", message, then)


def test_queue_that_says_nothing_may_not_manage_this_kind(api: FakeApi, status: Run) -> None:
    serve(api, QUEUED)
    api.answers[WORKLOADS] = []

    assert told(status("run1"))[1:] == (
        "no reason is known yet",
        "wait: the queue starts the run when there is room; if it never says why, it does not run, or does not manage "
        "this kind of job",
    )


@pytest.mark.parametrize(
    ("state", "message", "then"),
    [
        pytest.param(
            "Pending",
            "Waiting for resources. Currently there are not enough resources available to fulfill the request.",
            "wait: the quota is reserved; `kubectl --namespace team get provisioningrequests` shows what an autoscaler "
            "says",
            id="pending",
        ),
        pytest.param("Rejected", "no", "ask those who run the queue why its check refuses the run", id="rejected"),
    ],
)
def test_admission_check_that_follows_the_quota_is_told(
    api: FakeApi, status: Run, state: str, message: str, then: str
) -> None:
    # The ClusterQueue has the admission check "provisioning", as in the issue kubernetes-sigs/kueue#9048.
    serve(api, QUEUED)
    reserved = {"type": "QuotaReserved", "status": "True", "message": "Quota reserved in ClusterQueue team"}
    checks = [{"name": "other", "state": "Ready"}, {"name": "provisioning", "state": state, "message": message}]
    api.answers[WORKLOADS] = [
        {"metadata": {"name": "w"}, "status": {"conditions": [reserved], "admissionChecks": checks}}
    ]

    why = f"admission check provisioning is {state}: {message}"
    assert told(status("run1")) == ("Queued, in queue gpus", why, then)


@pytest.mark.parametrize(
    ("event", "then"),
    [
        # volcano-sh/volcano#4479
        pytest.param(
            "queue resource quota insufficient",
            f"free some of the queue's capability, {SMALLER}, or choose another queue",
            id="quota",
        ),
        # volcano-sh/volcano#3670
        pytest.param(
            "resource in cluster is overused",
            f"wait: Volcano lets in what the cluster has room for, or {SMALLER}",
            id="overcommit",
        ),
    ],
)
def test_plugin_of_volcano_that_keeps_a_run_out_is_told_by_its_event(
    api: FakeApi, status: Run, event: str, then: str
) -> None:
    gang = _serve_held_group(api)
    serve_events(
        api,
        {**event_of("uid-group", "Unschedulable", event), "type": "Normal"},
        event_of("uid-group", "Unschedulable", gang, "2026-01-01T00:00:01Z"),
    )

    assert told(status("run1")) == ("Queued, in queue gpus", f"Volcano: {event}", then)


def test_gang_scheduler_is_told_to_those_who_may_not_read_events(api: FakeApi, status: Run) -> None:
    gang = _serve_held_group(api)
    api.answers[f"{NAMESPACE}/events"] = 403

    assert told(status("run1"))[:2] == ("Queued, in queue gpus", f"Volcano: {gang}")


def test_gang_of_a_job_whose_name_ends_like_a_role_is_found(api: FakeApi, status: Run) -> None:
    gang = _serve_held_group(api, "run1-launcher")

    assert told(status("run1"))[:2] == ("Queued, in queue gpus", f"Volcano: {gang}")


def _serve_held_group(api: FakeApi, name: str = JOB) -> str:
    """Serve a run whose PodGroup Volcano does not admit. `name` is the name of its job.

    Return the message that `status` prints about the PodGroup's condition.
    """
    job = json.loads(json.dumps(PYTORCH).replace('"spec": {"cont', '"spec": {"schedulerName": "volcano", "cont'))
    serve(api, renamed(job, name), pods=[unplaced("worker", 0), unplaced("worker", 1)])
    gang = "0/0 tasks in gang unschedulable: pod group is not ready, 1 minAvailable"
    condition = {"type": "Unschedulable", "status": "True", "message": gang}
    status_of_group = {"phase": "Pending", "conditions": [condition]}
    group = {"metadata": {"uid": "uid-group"}, "spec": {"queue": "gpus"}, "status": status_of_group}
    api.answers[f"/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/{name}"] = group
    return gang
