"""Test what `status` reports about pods that the scheduler does not place, with real messages of kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import SMALLER, event, serve_events, told
from tests.plugin.status.runs import MPI, NAMESPACE, PYTORCH, pod, serve, unplaced

NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
NO_VICTIMS = (
    "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
    "1 Preemption is not helpful for scheduling."
)


def _unplaced(message: str, **spec: Any) -> list[Object]:
    waiting = unplaced("worker", 1, message)
    return [pod("worker", 0), {**waiting, "spec": {**waiting["spec"], **spec}}]


@pytest.mark.parametrize(
    ("message", "why", "then"),
    [
        pytest.param(
            f"0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, {NO_VICTIMS}",
            "run1-worker-1: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu",
            f"free nvidia.com/gpu, or {SMALLER}",
            id="no-gpu-free",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, {NOT_HELPFUL}",
            "run1-worker-1: no node is large enough: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu",
            "lower workers.gpus, or add a node that has so much nvidia.com/gpu",
            id="gpu-never-there",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 Insufficient cpu. {NOT_HELPFUL}",
            "run1-worker-1: no node is large enough: 0/2 nodes are available: 2 Insufficient cpu",
            "lower workers.cpu, or add a node that has so much cpu",
            id="cpu-never-there",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 Insufficient memory. {NOT_HELPFUL}",
            "run1-worker-1: no node is large enough: 0/2 nodes are available: 2 Insufficient memory",
            "lower workers.memory, or add a node that has so much memory",
            id="memory-never-there",
        ),
        pytest.param(
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. "
            "preemption: not eligible due to preemptionPolicy=Never.",
            "run1-worker-1: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu",
            f"free nvidia.com/gpu, or {SMALLER}",
            id="preemption-not-tried",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) had untolerated taint(s). {NOT_HELPFUL}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) had untolerated taint(s)",
            "`kubectl describe nodes` shows the taints: tolerate them with workers.tolerations, or remove them",
            id="taint",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) had untolerated taint {{gpu: yes}}. {NOT_HELPFUL}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) had untolerated taint {gpu: yes}",
            "`kubectl describe nodes` shows the taints: tolerate them with workers.tolerations, or remove them",
            id="taint-of-an-older-scheduler",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/unreachable: }. "
            + NOT_HELPFUL,
            "run1-worker-1: 0/2 nodes are available: "
            "2 node(s) had untolerated taint {node.kubernetes.io/unreachable: }",
            "bring the nodes back: `kubectl describe nodes` says what they lack",
            id="nodes-unreachable",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }. "
            + NOT_HELPFUL,
            "run1-worker-1: 0/2 nodes are available: "
            "2 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }",
            "free memory or disk space on the nodes",
            id="disk-pressure",
        ),
        pytest.param(
            "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). "
            f"{NOT_HELPFUL}",
            "run1-worker-1: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s)",
            "`kubectl describe nodes` shows the taints: tolerate them with workers.tolerations, or remove them",
            id="gpus-behind-a-taint",
        ),
        pytest.param(
            f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). {NO_VICTIMS}",
            "run1-worker-1: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s)",
            f"free nvidia.com/gpu, or {SMALLER}",
            id="gpus-in-use-beside-a-taint",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. {NOT_HELPFUL}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector",
            "correct workers.nodeSelector or workers.affinity, or give the nodes these labels",
            id="node-selector",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) were unschedulable. {NOT_HELPFUL}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) were unschedulable",
            "wait, or let the nodes take pods again with `kubectl uncordon NODE`",
            id="cordoned",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports. {NO_VICTIMS}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports",
            "give the pods another port, or more nodes: a port serves one pod of a node",
            id="port-in-use",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints. {NO_VICTIMS}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints",
            "set workers.topology.required=false, or add nodes with the label workers.topology.key",
            id="topology",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. {NO_VICTIMS}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules",
            "correct workers.affinity or workers.topology, or add nodes",
            id="anti-affinity",
        ),
        pytest.param(
            f'0/2 nodes are available: persistentvolumeclaim "data" not found. {NOT_HELPFUL}',
            'run1-worker-1: 0/2 nodes are available: persistentvolumeclaim "data" not found',
            "create the claim in this namespace, or correct claimName in volumes",
            id="claim-missing",
        ),
        pytest.param(
            '0/2 nodes are available: persistentvolumeclaim "data" not found. not found',
            'run1-worker-1: 0/2 nodes are available: persistentvolumeclaim "data" not found',
            "create the claim in this namespace, or correct claimName in volumes",
            id="claim-missing-said-twice",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. {NOT_HELPFUL}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind",
            "create a volume that the claim can bind, or correct its storageClassName",
            id="no-volume",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity. {NOT_HELPFUL}",
            "run1-worker-1: 0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity",
            "the volume is in another zone than the nodes: move it, or place the pods with workers.nodeSelector",
            id="volume-in-another-zone",
        ),
        pytest.param(
            f"0/2 nodes are available: 2 Too many pods. {NO_VICTIMS}",
            "run1-worker-1: 0/2 nodes are available: 2 Too many pods",
            "wait until pods end, or add nodes",
            id="too-many-pods",
        ),
        pytest.param(
            "no nodes available to schedule pods",
            "run1-worker-1: no nodes available to schedule pods",
            "add a node: the cluster has none",
            id="no-nodes",
        ),
        pytest.param(
            "PodGroup team/run1 gets rejected due to Pod run1-worker-0 is unschedulable even after PostFilter",
            "run1-worker-1: PodGroup team/run1 gets rejected due to Pod run1-worker-0 is unschedulable even after "
            "PostFilter",
            f"free room for all pods of the run, or make it smaller with {SMALLER.partition('with ')[2]}",
            id="gang",
        ),
        pytest.param(
            "0/1 nodes are available: resource gap: map[cpu:{{100 -3} {<nil>}  DecimalSI} memory:{{536870912 0} "
            "{<nil>}  BinarySI} nvidia.com/gpu:{{1 0} {<nil>}  DecimalSI}]. preemption: 0/1 nodes are available: 1 "
            "Preemption is not helpful for scheduling., PodGroup team/run1 gets rejected due to Pod run1-worker-1 is "
            "unschedulable even after PostFilter",
            "its pods start together or not at all, and lack 100m cpu, 512Mi memory and 1 nvidia.com/gpu",
            f"free room for all pods of the run, or make it smaller with {SMALLER.partition('with ')[2]}",
            id="gang-that-lacks",
        ),
        pytest.param(
            "the plugin X says no",
            "run1-worker-1: the plugin X says no",
            f"free room, or {SMALLER}",
            id="unknown",
        ),
    ],
)  # fmt: skip
def test_pod_without_a_node_is_explained(api: FakeApi, status: Run, message: str, why: str, then: str) -> None:
    serve(api, PYTORCH, pods=_unplaced(message))

    assert told(status("run1")) == ("Pending", why, then)


def test_of_a_gang_the_pod_that_does_not_fit_is_named(api: FakeApi, status: Run) -> None:
    rejected = "PodGroup team/run1 gets rejected due to Pod run1-worker-1 is unschedulable even after PostFilter"
    serve(api, PYTORCH, pods=[unplaced("worker", 0, rejected), unplaced("worker", 1)])

    assert told(status("run1"))[1] == (
        "run1-worker-1: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu (and 1 more pod)"
    )


def test_launcher_without_room_is_told_to_become_smaller_itself(api: FakeApi, status: Run) -> None:
    full = f"0/2 nodes are available: 2 Insufficient memory. {NO_VICTIMS}"
    serve(api, MPI, pods=[unplaced("launcher", 0, full), pod("worker", 0), pod("worker", 1)])

    assert told(status("run1"))[2] == "free memory, or lower launcher.memory"


def test_gated_pod_waits_for_what_gates_it(api: FakeApi, status: Run) -> None:
    waiting = unplaced("worker", 1, "Scheduling is blocked due to non-empty scheduling gates")
    waiting["status"]["conditions"][0]["reason"] = "SchedulingGated"
    serve(api, PYTORCH, pods=[pod("worker", 0), waiting])

    assert told(status("run1"))[1:] == (
        "run1-worker-1: Scheduling is blocked due to non-empty scheduling gates",
        "wait: what has set the gates, such as Kueue, removes them",
    )


def test_pod_of_a_scheduler_that_does_not_run_names_the_scheduler(api: FakeApi, status: Run) -> None:
    waiting = pod("worker", 1, phase="Pending")
    waiting["spec"]["schedulerName"] = "vulcano"
    serve(api, PYTORCH, pods=[pod("worker", 0), waiting])

    assert told(status("run1")) == (
        "Pending",
        "run1-worker-1: the scheduler vulcano has not looked at the pod",
        "wait; if this lasts, start vulcano, or name another scheduler in the values",
    )


UNBOUND = f"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. {NOT_HELPFUL}"
CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"
MOUNTS_CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_claim_that_is_not_bound_is_named_with_itsevent(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=_unplaced(UNBOUND, **MOUNTS_CLAIM))
    api.answers[f"{CLAIMS}/data"] = {"metadata": {"name": "data", "uid": "uid-claim"}, "spec": {}}
    words = "no persistent volumes available for this claim and no storage class is set"
    serve_events(api, event("uid-claim", "FailedBinding", words))

    assert told(status("run1"))[1:] == (
        f"run1-worker-1: the PersistentVolumeClaim data is not bound: {words}",
        "create a volume for it, or give the claim a storageClassName that makes one",
    )


def test_claim_that_may_not_be_read_is_said(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=_unplaced(UNBOUND, **MOUNTS_CLAIM))
    api.answers[f"{CLAIMS}/data"] = 403

    shown = status("run1")

    assert told(shown)[1:] == (
        "run1-worker-1: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims",
        "`kubectl --namespace team describe pvc` says what the claim waits for",
    )
    assert "PersistentVolumeClaim data cannot be read" in shown.out
