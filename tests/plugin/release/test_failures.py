"""Test the line that says why a job does not start."""

from __future__ import annotations

import msgspec
import pytest

from distrain import kube
from distrain.release.failures import Failure, failures
from distrain.release.start import JobState, unschedulable
from tests.plugin.objects import plain, pytorch_job
from tests.plugin.release.job_states import (
    MPI,
    RUNNING,
    ended,
    job_of,
    job_pod,
    job_state,
    running_pod,
    waiting,
    warning,
)


def _troubles(sight: JobState) -> list[Failure]:
    return list(failures(sight, MPI, s3_secret="s3"))


def test_missing_image_names_value_image_and_the_kubelets_words() -> None:
    words = 'Back-off pulling image "distrain/nope:1": not found'

    (trouble,) = _troubles(job_state(job_pod("worker", waiting("ImagePullBackOff", words))))

    assert trouble.words == (
        "image.repository: cannot pull distrain/nope:1: not found; "
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
    worker = job_pod("worker", RUNNING)
    worker["spec"]["initContainers"] = [{"name": container, "image": "alpine:3.10"}]
    worker["status"]["initContainerStatuses"] = [{"name": container, **waiting("ErrImagePull", "not found")}]

    assert [trouble.words for trouble in _troubles(job_state(worker))] == [words]


def test_trouble_keeps_its_identity_while_the_kubelet_tries_again() -> None:
    first = _troubles(job_state(job_pod("worker", waiting("ErrImagePull", "not found"))))
    second = _troubles(job_state(job_pod("worker", waiting("ImagePullBackOff", "Back-off"))))

    assert first[0].about == second[0].about


def test_image_name_that_is_none_is_final() -> None:
    assert _troubles(job_state(job_pod("worker", waiting("InvalidImageName", "bad"))))[0].final


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
    (trouble,) = _troubles(job_state(job_pod("worker", waiting("CreateContainerConfigError", message))))

    assert trouble.words == words


def test_worker_that_crashes_again_and_again_says_how_it_ended() -> None:
    crashing = {**waiting("CrashLoopBackOff"), "lastState": {"terminated": ended(1, "sshd: no key")}}

    (trouble,) = _troubles(job_state(job_pod("worker", crashing, phase="Running")))

    assert trouble.words == "run1-worker-0: starts and ends again and again: sshd: no key (exit code 1); see its log"
    assert not trouble.final


def test_failed_worker_is_final() -> None:
    failed = job_pod("worker", {"state": {"terminated": ended(1, "sshd: no key")}}, phase="Failed")

    (trouble,) = _troubles(job_state(running_pod("launcher"), failed))

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
    launcher = job_pod("launcher", {"state": {"terminated": ended(2, message)}}, phase="Failed")

    (trouble,) = _troubles(job_state(launcher, condition="Failed", message="BackoffLimitExceeded"))

    assert trouble == Failure("job", words, final=True)


def test_failed_job_without_last_words_is_reported_in_the_operators() -> None:
    (trouble,) = _troubles(job_state(running_pod("launcher"), condition="Failed", message="1/2 workers are evicted"))

    assert trouble.words == "the job failed: 1/2 workers are evicted"


def test_launcher_that_failed_may_be_tried_again_while_the_job_has_not() -> None:
    launcher = job_pod("launcher", {"state": {"terminated": ended(1, "boom")}}, phase="Failed")

    assert _troubles(job_state(launcher)) == []


def test_job_that_the_operator_rejects_is_final() -> None:
    rejected = warning("job", "ValidationError", "Found validation errors: spec")
    of_an_older_job = warning("other", "ValidationError", "old")

    assert _troubles(job_state(events=[rejected])) == [
        Failure("job", "the operator rejects the job: Found validation errors: spec", final=True)
    ]
    assert _troubles(job_state(events=[of_an_older_job])) == []


def test_running_pods_are_no_trouble() -> None:
    assert _troubles(job_state(running_pod("launcher"), running_pod("worker"))) == []
    assert unschedulable(job_state(running_pod("worker"))) is None


def test_workers_job_that_failed_ends_a_plain_job() -> None:
    sight = job_state(running_pod("launcher"))
    failed = {"status": {"conditions": [{"type": "Failed", "status": "True", "message": "Pod failed: exit code 3"}]}}
    states = [*sight.states, msgspec.convert(failed, kube.Workload)]

    found = list(failures(JobState(states, sight.pods, []), job_of(*plain(workers=1)), s3_secret=""))

    assert found == [Failure("job", "the job failed: Pod failed: exit code 3", final=True)]


def test_failed_pod_that_its_operator_may_replace_is_no_failure_yet() -> None:
    failed = job_pod("worker", {"state": {"terminated": ended(1, "boom")}}, phase="Failed")

    assert list(failures(job_state(failed), job_of(pytorch_job(workers=1)), s3_secret="")) == []


def test_failed_job_without_a_launcher_is_reported_in_the_last_words_of_a_rank_that_failed() -> None:
    stopped = job_pod("worker", {"state": {"terminated": ended(0, "distrain: done")}}, phase="Succeeded")
    failed = job_pod("worker", {"state": {"terminated": ended(1, "distrain: data.uri: no bucket")}}, phase="Failed")
    sight = job_state(stopped, failed, condition="Failed", message="exit code 1")

    (trouble,) = failures(sight, job_of(pytorch_job(workers=2)), s3_secret="")

    assert trouble == Failure("job", "data.uri: no bucket", final=True)


def test_launchers_last_words_come_before_those_of_workers() -> None:
    worker = job_pod("worker", {"state": {"terminated": ended(255, "connection closed")}}, phase="Failed")
    launcher = job_pod("launcher", {"state": {"terminated": ended(1, "out of memory")}}, phase="Failed")
    sight = job_state(worker, launcher, condition="Failed")

    assert next(failures(sight, job_of(*plain(workers=1)), s3_secret="")).words == "out of memory"


def test_job_that_training_operator_rejects_is_final() -> None:
    rejected = warning("job", "MPIJobFailedValidation", "spec is not valid")

    assert _troubles(job_state(events=[rejected]))[0].words == "the operator rejects the job: spec is not valid"
