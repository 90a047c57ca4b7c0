"""Test when a job counts as started, and the line that says what its pods wait for."""

from __future__ import annotations

import msgspec
import pytest

from distrain import kube
from distrain.progress.start import JobState, has_started, lasting, own_pods, progress, unschedulable
from distrain.status.facts import workers_wanted
from distrain.workload.manifest import Job
from tests.plugin.objects import Object, mpi_job, mx_job, plain, pytorch_job, tf_job
from tests.plugin.progress.job_states import (
    MPI,
    job_of,
    job_pod,
    job_state,
    running_pod,
    unplaced_pod,
    waiting,
    warning,
)


def test_job_has_started_when_launcher_and_all_workers_run() -> None:
    assert has_started(job_state(running_pod("launcher"), running_pod("worker")), MPI)
    assert not has_started(job_state(running_pod("launcher"), running_pod("worker")), job_of(mpi_job(workers=2)))
    assert not has_started(job_state(running_pod("worker")), MPI)


def test_job_that_is_done_already_has_started() -> None:
    assert has_started(job_state(condition="Succeeded"), job_of(mpi_job(workers=2)))


def test_pod_whose_container_is_not_up_has_not_started() -> None:
    creating = job_pod("worker", waiting("ContainerCreating"), phase="Running")

    assert not has_started(job_state(running_pod("launcher"), creating), MPI)


def test_pod_needs_all_its_containers_up() -> None:
    worker = running_pod("worker")
    worker["status"]["containerStatuses"].append({"name": "log", **waiting("ContainerCreating")})

    sight = job_state(running_pod("launcher"), worker)

    assert not has_started(sight, MPI)
    assert progress(sight, MPI).endswith("; run1-worker-0: ContainerCreating")


def test_launcher_that_is_through_already_has_started() -> None:
    done = job_pod("launcher", {"state": {"terminated": {"exitCode": 0}}}, phase="Succeeded")

    assert has_started(job_state(done, running_pod("worker")), MPI)


def test_only_the_schedulers_own_condition_says_that_a_pod_is_not_placed() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "message": "not ready"},
        {"type": "PodScheduled", "status": "True", "message": "placed"},
    ]
    placed = job_pod("worker", waiting("ContainerCreating"), conditions=conditions)
    unplaced = unplaced_pod("worker", "0/1 nodes\nare available")

    assert unschedulable(job_state(placed)) is None
    assert progress(job_state(placed), MPI).endswith("; run1-worker-0: ContainerCreating")
    assert unschedulable(job_state(placed, unplaced)) == "run1-worker-0: 0/1 nodes are available"


@pytest.mark.parametrize(
    ("sight", "line"),
    [
        pytest.param(job_state(), "0 of 1 worker running, launcher waiting; no pod yet", id="no-pod"),
        pytest.param(
            job_state(events=[warning("job", "MPIJobFailed", "worker pod created failed:\n quota exceeded")]),
            "0 of 1 worker running, launcher waiting; no pod yet: worker pod created failed: quota exceeded",
            id="pod-refused",
        ),
        pytest.param(
            job_state(running_pod("launcher"), unplaced_pod("worker", "0/1 nodes are available")),
            "0 of 1 worker running, launcher running; run1-worker-0: 0/1 nodes are available",
            id="unplaced",
        ),
        pytest.param(
            job_state(running_pod("launcher"), job_pod("worker", waiting("ContainerCreating"))),
            "0 of 1 worker running, launcher running; run1-worker-0: ContainerCreating",
            id="creating",
        ),
        pytest.param(
            job_state(
                running_pod("launcher"),
                job_pod("worker", waiting("ContainerCreating")),
                events=[
                    warning("run1-worker-0", "FailedScheduling", "0/1 nodes are available"),
                    warning("run1-worker-0", "FailedMount", 'secret "nope" not found'),
                ],
            ),
            '0 of 1 worker running, launcher running; run1-worker-0: secret "nope" not found',
            id="missing-volume",
        ),
        pytest.param(
            job_state(running_pod("launcher"), running_pod("worker"), running_pod("worker")),
            "1 of 1 worker running (1 more to end), launcher running",
            id="fewer-than-before",
        ),
    ],
)
def test_progress_names_what_the_first_waiting_pod_waits_for(sight: JobState, line: str) -> None:
    assert progress(sight, MPI) == line


def _without_workers(job: Object) -> Object:
    """Return the PyTorchJob as the chart renders it for a single rank: without the role Worker."""
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]
    return job


def test_pods_of_an_earlier_release_and_of_hooks_are_left_out() -> None:
    job = msgspec.convert({"metadata": {"creationTimestamp": "2026-01-01T00:01:00Z"}}, kube.Workload)
    preflight = {"helm.sh/hook": "pre-install,pre-upgrade"}
    stamps = [
        {"name": "older", "creationTimestamp": "2026-01-01T00:00:00Z"},
        {"name": "leaving", "creationTimestamp": "2026-01-01T00:02:00Z", "deletionTimestamp": "2026-01-01T00:03:00Z"},
        {"name": "own", "creationTimestamp": "2026-01-01T00:01:00Z"},
        {"name": "refused", "creationTimestamp": "2026-01-01T00:02:00Z", "annotations": preflight},
    ]
    pods = msgspec.convert([{"metadata": stamp} for stamp in stamps], list[kube.Pod])

    assert [pod.metadata.name for pod in own_pods([job], pods)] == ["own"]


@pytest.mark.parametrize(
    ("job", "up", "line"),
    [
        pytest.param(job_of(pytorch_job(workers=2)), ["worker"], "1 of 2 workers running", id="pytorch"),
        pytest.param(
            job_of(pytorch_job(workers=3, master=True)),
            ["worker", "worker"],
            "2 of 3 workers running",
            id="pytorch-master",
        ),
        pytest.param(
            job_of(_without_workers(pytorch_job(workers=1, master=True))),
            [],
            "0 of 1 worker running; no pod yet",
            id="master-alone",
        ),
        pytest.param(
            job_of(mx_job(servers=2, workers=1)),
            ["worker", "server", "scheduler"],
            "1 of 1 worker running, 1 of 2 servers running, scheduler running",
            id="mxnet",
        ),
        pytest.param(
            job_of(tf_job(servers=2, workers=1)),
            ["server", "server", "chief"],
            "0 of 1 worker running, 2 of 2 ps running, chief running",
            id="tensorflow",
        ),
        pytest.param(
            job_of(*plain(workers=1)), ["keygen", "worker"], "1 of 1 worker running, launcher waiting", id="plain"
        ),
    ],
)
def test_every_kind_has_started_when_its_last_pod_runs(job: Job, up: list[str], line: str) -> None:
    running = [running_pod(role) for role in up]
    missing = next(role for role in lasting(job) if up.count(role.component) < role.replicas)

    assert not has_started(job_state(*running), job)
    assert progress(job_state(*running), job) == line
    assert has_started(job_state(*running, running_pod(missing.component)), job)
    # The progress counts the same workers as `status`.
    assert f" of {workers_wanted(job)} worker" in line


def test_launchers_job_that_is_complete_has_started() -> None:
    assert has_started(job_state(condition="Complete"), job_of(*plain(workers=2)))


def test_pods_that_the_workers_job_may_not_make_are_reported() -> None:
    denied = warning("workers", "FailedCreate", "pods are forbidden: exceeded quota")
    workers = msgspec.convert({"metadata": {"uid": "workers"}}, kube.Workload)
    sight = job_state(events=[denied])

    line = progress(JobState([*sight.states, workers], [], sight.events), job_of(*plain(workers=2)))

    assert line == "0 of 2 workers running, launcher waiting; no pod yet: pods are forbidden: exceeded quota"
