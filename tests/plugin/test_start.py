"""Whether a job has started, and the one line that says why it does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.start import Sight, Trouble, has_started, own_pods, progress, troubles, unschedulable

RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
IMAGE = "distrain/nope:1"


def _waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def _ended(code: int, message: str) -> dict[str, Any]:
    return {"exitCode": code, "message": message, "reason": "Error"}


def _pod(role: str, container: dict[str, Any], *, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    name = {"launcher": "run1-launcher-x", "worker": "run1-worker-0"}[role]
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


def _sight(*pods: dict[str, Any], condition: str = "", message: str = "", events: Any = ()) -> Sight:
    conditions = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "False"}]
    if condition:
        conditions.append({"type": condition, "status": "True", "message": message})
    job = {"metadata": {"name": "run1", "uid": "job"}, "status": {"conditions": conditions}}
    return Sight(
        msgspec.convert(job, kube.MPIJob),
        msgspec.convert(list(pods), list[kube.Pod]),
        msgspec.convert(list(events), list[kube.Event]),
    )


def _troubles(sight: Sight) -> list[Trouble]:
    return list(troubles(sight, s3_secret="s3"))


def test_job_has_started_when_launcher_and_all_workers_run() -> None:
    assert has_started(_sight(_running("launcher"), _running("worker")), workers=1)
    assert not has_started(_sight(_running("launcher"), _running("worker")), workers=2)
    assert not has_started(_sight(_running("worker")), workers=1)


def test_job_that_is_done_already_has_started() -> None:
    assert has_started(_sight(condition="Succeeded"), workers=2)


def test_pod_whose_container_is_not_up_has_not_started() -> None:
    creating = _pod("worker", _waiting("ContainerCreating"), phase="Running")

    assert not has_started(_sight(_running("launcher"), creating), workers=1)


def test_pod_needs_all_its_containers_up() -> None:
    worker = _running("worker")
    worker["status"]["containerStatuses"].append({"name": "log", **_waiting("ContainerCreating")})

    sight = _sight(_running("launcher"), worker)

    assert not has_started(sight, workers=1)
    assert progress(sight, workers=1).endswith("; run1-worker-0: ContainerCreating")


def test_launcher_that_is_through_already_has_started() -> None:
    done = _pod("launcher", {"state": {"terminated": {"exitCode": 0}}}, phase="Succeeded")

    assert has_started(_sight(done, _running("worker")), workers=1)


def test_only_the_schedulers_own_condition_says_that_a_pod_is_not_placed() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "message": "not ready"},
        {"type": "PodScheduled", "status": "True", "message": "placed"},
    ]
    placed = _pod("worker", _waiting("ContainerCreating"), conditions=conditions)
    unplaced = _unplaced("worker", "0/1 nodes\nare available")

    assert unschedulable(_sight(placed)) is None
    assert progress(_sight(placed), workers=1).endswith("; run1-worker-0: ContainerCreating")
    assert unschedulable(_sight(placed, unplaced)) == "run1-worker-0: 0/1 nodes are available"


@pytest.mark.parametrize(
    ("sight", "line"),
    [
        pytest.param(_sight(), "0 of 1 workers running, launcher waiting; no pod yet", id="no-pod"),
        pytest.param(
            _sight(events=[_event("job", "MPIJobFailed", "worker pod created failed:\n quota exceeded")]),
            "0 of 1 workers running, launcher waiting; no pod yet: worker pod created failed: quota exceeded",
            id="pod-refused",
        ),
        pytest.param(
            _sight(_running("launcher"), _unplaced("worker", "0/1 nodes are available")),
            "0 of 1 workers running, launcher running; run1-worker-0: 0/1 nodes are available",
            id="unplaced",
        ),
        pytest.param(
            _sight(_running("launcher"), _pod("worker", _waiting("ContainerCreating"))),
            "0 of 1 workers running, launcher running; run1-worker-0: ContainerCreating",
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
            '0 of 1 workers running, launcher running; run1-worker-0: secret "nope" not found',
            id="missing-volume",
        ),
    ],
)
def test_progress_names_what_the_first_waiting_pod_waits_for(sight: Sight, line: str) -> None:
    assert progress(sight, workers=1) == line


def test_missing_image_names_value_image_and_the_kubelets_words() -> None:
    words = 'Back-off pulling image "distrain/nope:1": not found'

    (trouble,) = _troubles(_sight(_pod("worker", _waiting("ImagePullBackOff", words))))

    assert trouble.words == (
        'image.repository: cannot pull distrain/nope:1: Back-off pulling image "distrain/nope:1": not found; '
        "correct image.repository or image.tag, or name a registry login under image.pullSecrets"
    )
    assert not trouble.final


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

    assert trouble == Trouble("run1-worker-0", "run1-worker-0: failed: sshd: no key (exit code 1)", final=True)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param("distrain: data.uri: no bucket; make it\n", "data.uri: no bucket; make it", id="own-line"),
        pytest.param("starting\ndistrain: data.uri: no bucket\nbye\n", "data.uri: no bucket", id="own-line-in-a-log"),
        pytest.param("starting\nboom\n", "boom", id="last-line-of-a-log"),
    ],
)
def test_failed_job_is_told_in_the_launchers_last_words(message: str, words: str) -> None:
    launcher = _pod("launcher", {"state": {"terminated": _ended(2, message)}}, phase="Failed")

    (trouble,) = _troubles(_sight(launcher, condition="Failed", message="BackoffLimitExceeded"))

    assert trouble == Trouble("job", words, final=True)


def test_failed_job_without_last_words_is_told_in_the_operators() -> None:
    (trouble,) = _troubles(_sight(_running("launcher"), condition="Failed", message="1/2 workers are evicted"))

    assert trouble.words == "the job failed: 1/2 workers are evicted"


def test_launcher_that_failed_may_be_tried_again_while_the_job_has_not() -> None:
    launcher = _pod("launcher", {"state": {"terminated": _ended(1, "boom")}}, phase="Failed")

    assert _troubles(_sight(launcher)) == []


def test_job_that_the_operator_rejects_is_final() -> None:
    rejected = _event("job", "ValidationError", "Found validation errors: spec")
    of_an_older_job = _event("other", "ValidationError", "old")

    assert _troubles(_sight(events=[rejected])) == [
        Trouble("job", "mpi-operator rejects the job: Found validation errors: spec", final=True)
    ]
    assert _troubles(_sight(events=[of_an_older_job])) == []


def test_running_pods_are_no_trouble() -> None:
    assert _troubles(_sight(_running("launcher"), _running("worker"))) == []
    assert unschedulable(_sight(_running("worker"))) is None


def test_pods_of_an_earlier_release_are_left_out() -> None:
    job = msgspec.convert({"metadata": {"creationTimestamp": "2026-01-01T00:01:00Z"}}, kube.MPIJob)
    stamps = [
        {"name": "older", "creationTimestamp": "2026-01-01T00:00:00Z"},
        {"name": "leaving", "creationTimestamp": "2026-01-01T00:02:00Z", "deletionTimestamp": "2026-01-01T00:03:00Z"},
        {"name": "own", "creationTimestamp": "2026-01-01T00:01:00Z"},
    ]
    pods = msgspec.convert([{"metadata": stamp} for stamp in stamps], list[kube.Pod])

    assert [pod.metadata.name for pod in own_pods(job, pods)] == ["own"]
