"""Test what `status` reports about deletions that do not finish, sidecars that do not end, and init containers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import told
from tests.plugin.status.runs import BORN, MPI, PYTORCH, live, pod, serve, step

UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
FOREGROUND = "foregroundDeletion"


def _at(ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))


@pytest.mark.parametrize(
    ("finalizers", "more", "then"),
    [
        # With PrunePropagationPolicy=foreground, Argo CD deletes objects in the foreground: argoproj/argo-cd#17465.
        pytest.param([FOREGROUND], "", "wait: it is gone once its pods have ended", id="foreground"),
        # The operator that would remove this finalizer no longer exists: argoproj/argo-cd#9296.
        pytest.param(
            [FOREGROUND, "example.com/audit"],
            "; the finalizer example.com/audit holds it",
            "see `kubectl --namespace team describe mpijob run1-1234abcd`: what has set the finalizer removes it",
            id="finalizer",
        ),
    ],
)
def test_job_that_is_being_deleted_is_told(
    api: FakeApi, status: Run, finalizers: list[str], more: str, then: str
) -> None:
    job = live(MPI, deletionTimestamp=_at(600), finalizers=finalizers)
    serve(api, job, pods=[pod("worker", 0)])

    assert told(status("run1"))[1:] == (f"the MPIJob run1-1234abcd is being deleted, since 10 min{more}", then)


def _leaving(number: int, ago: float) -> Object:
    found = pod("worker", number)
    return {**found, "metadata": {**found["metadata"], "deletionTimestamp": _at(ago)}}


@pytest.mark.parametrize(("ago", "is_late"), [(900, True), (-20, False), (30, False)])
def test_pod_that_does_not_end_keeps_its_successor_from_being_created(
    api: FakeApi, status: Run, ago: float, *, is_late: bool
) -> None:
    # kubernetes/kubernetes#51835
    serve(api, PYTORCH, pods=[pod("worker", 0), _leaving(1, ago)])

    _, why, then = told(status("run1"))

    assert (why == "run1-worker-1 should have ended 15 min ago, and its successor waits for that") is is_late
    assert then.endswith("for good, `kubectl --namespace team delete pod run1-worker-1 --force`") is is_late


def _states(role: str, **containers: dict[str, Any]) -> Object:
    statuses = [{"name": name.replace("_", "-"), "state": state} for name, state in containers.items()]
    found = pod(role, containerStatuses=statuses)
    more = [{"name": each["name"], "image": "r:1"} for each in statuses]
    return {**found, "spec": {"containers": more}}


def test_sidecar_that_outlives_the_program_is_named(api: FakeApi, status: Run) -> None:
    # As long as a sidecar runs, the job cannot finish: istio/istio#11045 and kubeflow/katib#1042.
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": BORN}}
    serve(api, MPI, pods=[_states("launcher", launcher=ended, istio_proxy={"running": {"startedAt": BORN}}), *UP[1:]])

    assert told(status("run1"))[1:] == (
        "run1-launcher: its program has ended well, and its container istio-proxy still runs",
        "keep istio-proxy out of the pods (Istio, Linkerd: serviceMesh: none), or make it a "
        "native sidecar: an init container with restartPolicy: Always",
    )


def test_program_that_has_failed_beside_a_container_that_runs_is_named(api: FakeApi, status: Run) -> None:
    # With restartPolicy Never, kubelet does not restart the program, and the pod stays Running.
    ended = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": BORN}}
    worker = _states("worker", worker=ended, istio_proxy={"running": {"startedAt": BORN}})
    serve(api, MPI, pods=[UP[0], worker, UP[2]], run1_launcher=step(7, at=time.time()))

    assert told(status("run1")) == (
        "Running",
        "run1-worker-0: its program has ended with exit code 137, and its container istio-proxy runs on",
        "read `kubectl --namespace team logs run1-worker-0 -c worker`",
    )


def test_init_container_that_still_runs_is_named_with_its_log(api: FakeApi, status: Run) -> None:
    # kubeflow/pytorch-operator#348 and kubeflow/mpi-operator#481
    waiting = {"name": "launcher", "state": {"waiting": {"reason": "PodInitializing"}}}
    running = {"name": "kubectl-delivery", "state": {"running": {"startedAt": BORN}}}
    launcher = pod("launcher", phase="Pending", containerStatuses=[waiting], initContainerStatuses=[running])
    serve(api, MPI, pods=[launcher, *UP[1:]])

    assert told(status("run1")) == (
        "Starting",
        "run1-launcher: its init container kubectl-delivery still runs",
        "wait; `kubectl --namespace team logs -f run1-launcher -c kubectl-delivery` shows what it does",
    )
