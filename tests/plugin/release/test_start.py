"""Test whether a job counts as started, and the line that says why a job has not started."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from distrain import kube
from distrain.release.start import Failure, JobState, failures, has_started, lasting, own_pods, progress, unschedulable
from distrain.workload.manifest import Job, from_manifest
from tests.plugin.objects import Object, mpi_job, mx_job, plain, pytorch_job, tf_job

RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
IMAGE = "distrain/nope:1"


def _job(*documents: Object) -> Job:
    return from_manifest(yaml.safe_dump_all(documents), "--chart")


MPI = _job(mpi_job(workers=1))


def _waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def _ended(code: int, message: str) -> dict[str, Any]:
    return {"exitCode": code, "message": message, "reason": "Error"}


def _pod(role: str, container: dict[str, Any], *, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    name = "run1-launcher-x" if role == "launcher" else f"run1-{role}-0"
    metadata = {"name": name, "namespace": "team", "uid": name, "labels": {"app.kubernetes.io/component": role}}
    spec = {"containers": [{"name": role, "image": IMAGE}]}
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "containerStatuses": [{"name": role, **container}], **status},
    }


def _running(role: str) -> dict[str, Any]:
    return _pod(role, RUNNING, phase="Running")


def _unplaced(role: str, words: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    return {**_pod(role, {}), "status": {"phase": "Pending", "conditions": [condition]}}


def _event(uid: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": "Warning", "reason": reason, "message": message, "involvedObject": {"uid": uid}}


def _sight(*pods: dict[str, Any], condition: str = "", message: str = "", events: Any = ()) -> JobState:
    conditions = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "False"}]
    if condition:
        conditions.append({"type": condition, "status": "True", "message": message})
    job = {"metadata": {"name": "run1", "uid": "job"}, "status": {"conditions": conditions}}
    return JobState(
        [msgspec.convert(job, kube.Workload)],
        msgspec.convert(list(pods), list[kube.Pod]),
        msgspec.convert(list(events), list[kube.Event]),
    )


def _troubles(sight: JobState) -> list[Failure]:
    return list(failures(sight, MPI, s3_secret="s3"))


def test_job_has_started_when_launcher_and_all_workers_run() -> None:
    assert has_started(_sight(_running("launcher"), _running("worker")), MPI)
    assert not has_started(_sight(_running("launcher"), _running("worker")), _job(mpi_job(workers=2)))
    assert not has_started(_sight(_running("worker")), MPI)


def test_job_that_is_done_already_has_started() -> None:
    assert has_started(_sight(condition="Succeeded"), _job(mpi_job(workers=2)))


def test_pod_whose_container_is_not_up_has_not_started() -> None:
    creating = _pod("worker", _waiting("ContainerCreating"), phase="Running")

    assert not has_started(_sight(_running("launcher"), creating), MPI)


def test_pod_needs_all_its_containers_up() -> None:
    worker = _running("worker")
    worker["status"]["containerStatuses"].append({"name": "log", **_waiting("ContainerCreating")})

    sight = _sight(_running("launcher"), worker)

    assert not has_started(sight, MPI)
    assert progress(sight, MPI).endswith("; run1-worker-0: ContainerCreating")


def test_launcher_that_is_through_already_has_started() -> None:
    done = _pod("launcher", {"state": {"terminated": {"exitCode": 0}}}, phase="Succeeded")

    assert has_started(_sight(done, _running("worker")), MPI)


def test_only_the_schedulers_own_condition_says_that_a_pod_is_not_placed() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "message": "not ready"},
        {"type": "PodScheduled", "status": "True", "message": "placed"},
    ]
    placed = _pod("worker", _waiting("ContainerCreating"), conditions=conditions)
    unplaced = _unplaced("worker", "0/1 nodes\nare available")

    assert unschedulable(_sight(placed)) is None
    assert progress(_sight(placed), MPI).endswith("; run1-worker-0: ContainerCreating")
    assert unschedulable(_sight(placed, unplaced)) == "run1-worker-0: 0/1 nodes are available"


@pytest.mark.parametrize(
    ("sight", "line"),
    [
        pytest.param(_sight(), "0 of 1 worker running, launcher waiting; no pod yet", id="no-pod"),
        pytest.param(
            _sight(events=[_event("job", "MPIJobFailed", "worker pod created failed:\n quota exceeded")]),
            "0 of 1 worker running, launcher waiting; no pod yet: worker pod created failed: quota exceeded",
            id="pod-refused",
        ),
        pytest.param(
            _sight(_running("launcher"), _unplaced("worker", "0/1 nodes are available")),
            "0 of 1 worker running, launcher running; run1-worker-0: 0/1 nodes are available",
            id="unplaced",
        ),
        pytest.param(
            _sight(_running("launcher"), _pod("worker", _waiting("ContainerCreating"))),
            "0 of 1 worker running, launcher running; run1-worker-0: ContainerCreating",
            id="creating",
        ),
        pytest.param(
            _sight(
                _running("launcher"),
                _pod("worker", _waiting("ContainerCreating")),
                events=[
                    _event("run1-worker-0", "FailedScheduling", "0/1 nodes are available"),
                    _event("run1-worker-0", "FailedMount", 'secret "nope" not found'),
                ],
            ),
            '0 of 1 worker running, launcher running; run1-worker-0: secret "nope" not found',
            id="missing-volume",
        ),
    ],
)
def test_progress_names_what_the_first_waiting_pod_waits_for(sight: JobState, line: str) -> None:
    assert progress(sight, MPI) == line


def test_missing_image_names_value_image_and_the_kubelets_words() -> None:
    words = 'Back-off pulling image "distrain/nope:1": not found'

    (trouble,) = _troubles(_sight(_pod("worker", _waiting("ImagePullBackOff", words))))

    assert trouble.words == (
        'image.repository: cannot pull distrain/nope:1: Back-off pulling image "distrain/nope:1": not found; '
        "correct image.repository or image.tag, or name a registry login under image.pullSecrets"
    )
    assert not trouble.final


@pytest.mark.parametrize(
    ("container", "words"),
    [
        pytest.param(
            "init-pytorch",
            "run1-worker-0: cannot pull alpine:3.10: not found; the operator adds this container: give it another "
            "image with its --pytorch-init-container-image",
            id="operators",
        ),
        pytest.param(
            "log",
            "run1-worker-0: cannot pull alpine:3.10: not found; correct the image of container log",
            id="users",
        ),
    ],
)
def test_missing_image_of_the_user_gets_another_message(container: str, words: str) -> None:
    worker = _pod("worker", RUNNING)
    worker["spec"]["initContainers"] = [{"name": container, "image": "alpine:3.10"}]
    worker["status"]["initContainerStatuses"] = [{"name": container, **_waiting("ErrImagePull", "not found")}]

    assert [trouble.words for trouble in _troubles(_sight(worker))] == [words]


def test_trouble_keeps_its_identity_while_the_kubelet_tries_again() -> None:
    first = _troubles(_sight(_pod("worker", _waiting("ErrImagePull", "not found"))))
    second = _troubles(_sight(_pod("worker", _waiting("ImagePullBackOff", "Back-off"))))

    assert first[0].about == second[0].about


def test_image_name_that_is_none_is_final() -> None:
    assert _troubles(_sight(_pod("worker", _waiting("InvalidImageName", "bad"))))[0].final


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param(
            'secret "s3" not found',
            's3.secretName: secret "s3" not found in namespace team; create it there, or correct the name',
            id="secret-of-a-value",
        ),
        pytest.param(
            'secret "hub" not found',
            'run1-worker-0: cannot start: secret "hub" not found; correct the values, or create what they name',
            id="secret-of-env",
        ),
    ],
)
def test_missing_secret_is_named(message: str, words: str) -> None:
    (trouble,) = _troubles(_sight(_pod("worker", _waiting("CreateContainerConfigError", message))))

    assert trouble.words == words


def test_worker_that_crashes_again_and_again_says_how_it_ended() -> None:
    crashing = {**_waiting("CrashLoopBackOff"), "lastState": {"terminated": _ended(1, "sshd: no key")}}

    (trouble,) = _troubles(_sight(_pod("worker", crashing, phase="Running")))

    assert trouble.words == "run1-worker-0: starts and ends again and again: sshd: no key (exit code 1); see its log"
    assert not trouble.final


def test_failed_worker_is_final() -> None:
    failed = _pod("worker", {"state": {"terminated": _ended(1, "sshd: no key")}}, phase="Failed")

    (trouble,) = _troubles(_sight(_running("launcher"), failed))

    assert trouble == Failure("run1-worker-0", "run1-worker-0: failed: sshd: no key (exit code 1)", final=True)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param("distrain: data.uri: no bucket; make it\n", "data.uri: no bucket; make it", id="own-line"),
        pytest.param("starting\ndistrain: data.uri: no bucket\nbye\n", "data.uri: no bucket", id="own-line-in-a-log"),
        pytest.param("starting\nboom\n", "boom", id="last-line-of-a-log"),
    ],
)
def test_failed_job_is_reported_in_the_launchers_last_words(message: str, words: str) -> None:
    launcher = _pod("launcher", {"state": {"terminated": _ended(2, message)}}, phase="Failed")

    (trouble,) = _troubles(_sight(launcher, condition="Failed", message="BackoffLimitExceeded"))

    assert trouble == Failure("job", words, final=True)


def test_failed_job_without_last_words_is_reported_in_the_operators() -> None:
    (trouble,) = _troubles(_sight(_running("launcher"), condition="Failed", message="1/2 workers are evicted"))

    assert trouble.words == "the job failed: 1/2 workers are evicted"


def test_launcher_that_failed_may_be_tried_again_while_the_job_has_not() -> None:
    launcher = _pod("launcher", {"state": {"terminated": _ended(1, "boom")}}, phase="Failed")

    assert _troubles(_sight(launcher)) == []


def test_job_that_the_operator_rejects_is_final() -> None:
    rejected = _event("job", "ValidationError", "Found validation errors: spec")
    of_an_older_job = _event("other", "ValidationError", "old")

    assert _troubles(_sight(events=[rejected])) == [
        Failure("job", "the operator rejects the job: Found validation errors: spec", final=True)
    ]
    assert _troubles(_sight(events=[of_an_older_job])) == []


def test_running_pods_are_no_trouble() -> None:
    assert _troubles(_sight(_running("launcher"), _running("worker"))) == []
    assert unschedulable(_sight(_running("worker"))) is None


def test_pods_of_an_earlier_release_are_left_out() -> None:
    job = msgspec.convert({"metadata": {"creationTimestamp": "2026-01-01T00:01:00Z"}}, kube.Workload)
    stamps = [
        {"name": "older", "creationTimestamp": "2026-01-01T00:00:00Z"},
        {"name": "leaving", "creationTimestamp": "2026-01-01T00:02:00Z", "deletionTimestamp": "2026-01-01T00:03:00Z"},
        {"name": "own", "creationTimestamp": "2026-01-01T00:01:00Z"},
    ]
    pods = msgspec.convert([{"metadata": stamp} for stamp in stamps], list[kube.Pod])

    assert [pod.metadata.name for pod in own_pods([job], pods)] == ["own"]


@pytest.mark.parametrize(
    ("job", "up", "line"),
    [
        pytest.param(_job(pytorch_job(workers=2)), ["worker"], "1 of 2 workers running", id="pytorch"),
        pytest.param(
            _job(pytorch_job(workers=3, master=True)),
            ["worker", "worker"],
            "2 of 2 workers running, master waiting",
            id="pytorch-master",
        ),
        pytest.param(
            _job(mx_job(servers=2, workers=1)),
            ["worker", "server", "scheduler"],
            "1 of 1 worker running, 1 of 2 servers running, scheduler running",
            id="mxnet",
        ),
        pytest.param(
            _job(tf_job(servers=2, workers=1)),
            ["server", "server", "chief"],
            "0 of 1 worker running, 2 of 2 ps running, chief running",
            id="tensorflow",
        ),
        pytest.param(
            _job(*plain(workers=1)), ["keygen", "worker"], "1 of 1 worker running, launcher waiting", id="plain"
        ),
    ],
)
def test_every_kind_has_started_when_its_last_pod_runs(job: Job, up: list[str], line: str) -> None:
    running = [_running(role) for role in up]
    missing = next(role for role in lasting(job) if up.count(role.component) < role.replicas)

    assert not has_started(_sight(*running), job)
    assert progress(_sight(*running), job) == line
    assert has_started(_sight(*running, _running(missing.component)), job)


def test_launchers_job_that_is_complete_has_started() -> None:
    assert has_started(_sight(condition="Complete"), _job(*plain(workers=2)))


def test_workers_job_that_failed_ends_a_plain_job() -> None:
    sight = _sight(_running("launcher"))
    failed = {"status": {"conditions": [{"type": "Failed", "status": "True", "message": "Pod failed: exit code 3"}]}}
    states = [*sight.states, msgspec.convert(failed, kube.Workload)]

    found = list(failures(JobState(states, sight.pods, []), _job(*plain(workers=1)), s3_secret=""))

    assert found == [Failure("job", "the job failed: Pod failed: exit code 3", final=True)]


def test_pods_that_the_workers_job_may_not_make_are_reported() -> None:
    denied = _event("workers", "FailedCreate", "pods are forbidden: exceeded quota")
    workers = msgspec.convert({"metadata": {"uid": "workers"}}, kube.Workload)
    sight = _sight(events=[denied])

    line = progress(JobState([*sight.states, workers], [], sight.events), _job(*plain(workers=2)))

    assert line == "0 of 2 workers running, launcher waiting; no pod yet: pods are forbidden: exceeded quota"


def test_failed_pod_that_its_operator_may_replace_is_no_failure_yet() -> None:
    failed = _pod("worker", {"state": {"terminated": _ended(1, "boom")}}, phase="Failed")

    assert list(failures(_sight(failed), _job(pytorch_job(workers=1)), s3_secret="")) == []


def test_failed_job_without_a_launcher_is_reported_in_the_last_words_of_a_rank_that_failed() -> None:
    stopped = _pod("worker", {"state": {"terminated": _ended(0, "distrain: done")}}, phase="Succeeded")
    failed = _pod("worker", {"state": {"terminated": _ended(1, "distrain: data.uri: no bucket")}}, phase="Failed")
    sight = _sight(stopped, failed, condition="Failed", message="exit code 1")

    (trouble,) = failures(sight, _job(pytorch_job(workers=2)), s3_secret="")

    assert trouble == Failure("job", "data.uri: no bucket", final=True)


def test_launchers_last_words_come_before_those_of_workers() -> None:
    worker = _pod("worker", {"state": {"terminated": _ended(255, "connection closed")}}, phase="Failed")
    launcher = _pod("launcher", {"state": {"terminated": _ended(1, "out of memory")}}, phase="Failed")
    sight = _sight(worker, launcher, condition="Failed")

    assert next(failures(sight, _job(*plain(workers=1)), s3_secret="")).words == "out of memory"


def test_job_that_training_operator_rejects_is_final() -> None:
    rejected = _event("job", "MPIJobFailedValidation", "spec is not valid")

    assert _troubles(_sight(events=[rejected]))[0].words == "the operator rejects the job: spec is not valid"
