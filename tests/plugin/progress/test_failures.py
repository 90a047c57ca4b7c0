"""Test the message that says why a job does not start."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from distrain import kube
from distrain.progress.failures import Failure, ends_of, failures
from distrain.progress.start import JobState, Log, unschedulable
from tests.plugin.objects import plain, pytorch_job
from tests.plugin.progress.job_states import (
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
        "correct image.repository or image.tag, or push the image"
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
        pytest.param("10%\r20%\rValueError: a\u2028b\x85c\r\n", "ValueError: a\u2028b\x85c", id="progress-bar"),
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


def _ended_worker(code: int, message: str, reason: str = "Error", at: str = "2026-01-01T00:01:00Z") -> dict[str, Any]:
    """Return a worker whose container has ended once, with this exit code and message, and is running again."""
    end = {**ended(code, message), "reason": reason, "finishedAt": at}
    return job_pod("worker", {**RUNNING, "lastState": {"terminated": end}}, phase="Running")


NO_PYTHON = (
    "image.repository: the image distrain/nope:1 has no python3 or no /usr/bin/env, which start the pods' scripts; use "
    "an image with Python 3.6 or newer"
)


@pytest.mark.parametrize(
    ("worker", "words"),
    [
        pytest.param(
            _ended_worker(2, "loading\ndistrain: data.uri: no bucket"), "data.uri: no bucket", id="own"
        ),
        pytest.param(_ended_worker(1, "distrain: data.uri: no bucket\nsh: exec: x: not found"), "data.uri: no bucket",
                     id="own-before-others"),
        pytest.param(
            _ended_worker(1, "distrain: image.repository: the image has no sshd; use one with an OpenSSH server"),
            "image.repository: the image has no sshd; use one with an OpenSSH server",
            id="no-sshd",
        ),
        pytest.param(
            _ended_worker(2, "distrain: command: nope: No such file or directory"),
            "command: nope: No such file or directory; correct command, or use an image that holds it",
            id="no-program",
        ),
        pytest.param(_ended_worker(1, "exec /opt/distrain/bin/distrain-worker: no such file or directory"), NO_PYTHON,
                     id="no-python"),
        pytest.param(_ended_worker(127, "/usr/bin/env: 'python3': No such file or directory"), NO_PYTHON, id="env"),
        pytest.param(_ended_worker(127, "env: can't execute 'python3': No such file or directory"), NO_PYTHON,
                     id="env-of-busybox"),
        pytest.param(
            _ended_worker(
                128, 'runc create failed: unable to start process: exec: "/app/run": permission denied: unknown',
                "StartError",
            ),
            "image.repository: the image distrain/nope:1 cannot run /app/run: permission denied; use an image with "
            "this program",
            id="runc",
        ),
        pytest.param(
            _ended_worker(255, "exec /opt/distrain/bin/distrain-worker: exec format error"),
            "image.repository: the image distrain/nope:1 is for another kind of processor; use an image for the nodes' "
            "processors",
            id="platform",
        ),
        pytest.param(
            _ended_worker(137, "", "OOMKilled"),
            "workers.memory: out of memory: container worker of run1-worker-0 was killed at its limit; raise "
            "workers.memory, or lower trainer.batchSize",
            id="out-of-memory",
        ),
    ],
)  # fmt: skip
def test_cause_that_a_container_ended_with_is_final_although_it_is_started_again(
    worker: dict[str, Any], words: str
) -> None:
    assert _troubles(job_state(running_pod("launcher"), worker)) == [Failure("run1-worker-0/worker", words, final=True)]


@pytest.mark.parametrize(
    "worker",
    [
        pytest.param(_ended_worker(143, "distrain: stopped by SIGTERM at step 4"), id="sigterm"),
        pytest.param(_ended_worker(137, ""), id="node-lost"),
        pytest.param(_ended_worker(0, "distrain: done"), id="success"),
        pytest.param(_ended_worker(1, "boom"), id="no-cause"),
    ],
)
def test_end_that_is_no_failure_of_the_run_is_passed_over(worker: dict[str, Any]) -> None:
    assert _troubles(job_state(worker)) == []


def test_failure_before_an_upgrade_does_not_end_its_wait() -> None:
    before = job_state(_ended_worker(2, "distrain: data.uri: no bucket"))
    after = job_state(_ended_worker(2, "distrain: data.uri: no bucket", at="2026-01-01T00:09:00Z"))

    earlier = ends_of(before.pods)

    assert list(failures(before, MPI, "s3", earlier)) == []
    assert len(list(failures(after, MPI, "s3", earlier))) == 1


def test_pod_that_lost_another_waits_for_that_ones_cause() -> None:
    lost = "the ranks have lost each other (gone); see the log of the rank that ended first"

    assert [failure.final for failure in _troubles(job_state(_ended_worker(1, f"distrain: {lost}")))] == [False]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        pytest.param('Back-off pulling image "a": ErrImagePull: dial tcp 10.0.0.1:1: connect: connection refused',
                     "connection refused", id="network"),
        pytest.param("pull access denied, repository does not exist or may require authorization: server message: "
                     "insufficient_scope: authorization failed", "authorization failed", id="no-login"),
        pytest.param("no match for platform in manifest: not found", "it has no build for the node's kind of processor",
                     id="platform"),
        pytest.param("", "ErrImagePull", id="no-message"),
    ],
)  # fmt: skip
def test_failed_pull_is_reported_by_its_cause_alone(message: str, why: str) -> None:
    (trouble,) = _troubles(job_state(job_pod("worker", waiting("ErrImagePull", message))))

    assert trouble.words.startswith(f"image.repository: cannot pull distrain/nope:1: {why}; correct image.repository")


RESTART = "distrain-launch: starting again (restart {} of 10 in 3600 s): {}\n"
EXIT = "mpirun ended with exit code 1; this pod's log says why"
STEP = 'distrain-progress: {"step": 4}\n'
NAME = "run1-launcher-x"
FLAGS = "--namespace team --context lab"
READ = f"read `kubectl {FLAGS} logs {NAME}`; {NAME} tries again (restart 1 of 10)"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        pytest.param(RESTART.format(1, "out of memory; raise it") + RESTART.format(2, "other"),
                     f"out of memory; raise it; {NAME} tries again (restart 1 of 10)", id="first-cause"),
        pytest.param("[1,0]<stderr>:ValueError: no model\nmpirun detected\n" + RESTART.format(1, EXIT),
                     f"{NAME}: ValueError: no model; {READ}", id="exception"),
        pytest.param("torch.cuda.OutOfMemoryError: CUDA out of memory.\n" + RESTART.format(1, EXIT),
                     f"{NAME}: torch.cuda.OutOfMemoryError: CUDA out of memory.; lower trainer.batchSize, or {READ}",
                     id="gpu-memory"),
        pytest.param("boom\n" + RESTART.format(1, EXIT), f"{NAME}: mpirun ended with exit code 1; {READ}",
                     id="exit-code"),
    ],
)  # fmt: skip
def test_failure_in_a_log_is_reported_by_its_first_cause(log: str, words: str) -> None:
    assert _told([log]) == [Failure(f"{NAME}/start", words, final=True)]


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param("no sign of run1-worker-1 (no answer) for 30 s", id="worker"),
        pytest.param("the earlier launcher was lost without SIGTERM, as when memory runs out", id="launcher"),
        pytest.param("signal 9 killed it, this pod's own process", id="own-process"),
    ],
)
def test_program_that_lost_another_pod_goes_on(cause: str) -> None:
    assert _told([RESTART.format(1, cause)]) == []


def test_storage_that_does_not_answer_may_recover() -> None:
    words = "s3.endpoint: no answer; correct it; the run still tries"

    assert _told(["s3.endpoint: no answer; correct it; trying again for 534 s\n"]) == [
        Failure(f"{NAME}/storage", words)
    ]


def test_failure_that_a_step_has_followed_is_over() -> None:
    assert _told([RESTART.format(1, EXIT) + STEP, "", None]) == []


def _told(texts: list[str | None]) -> list[Failure]:
    launcher = msgspec.convert(running_pod("launcher"), kube.Pod)
    return _troubles(replace(job_state(), logs=[Log(launcher, text, FLAGS) for text in texts]))
