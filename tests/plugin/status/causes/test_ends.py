"""Test what `status` says of pods and jobs that have ended, of lost nodes, and of operators that do not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.chart.scripts.pods import SCRIPTS
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import told
from tests.plugin.status.runs import MPI, PYTORCH, live, pod, serve, unplaced


@pytest.mark.parametrize(
    ("reason", "message", "why", "then"),
    [
        pytest.param(
            "Evicted",
            'Usage of EmptyDir volume "shm" exceeds the limit "1Gi". ',
            'run1-worker-1: evicted: Usage of EmptyDir volume "shm" exceeds the limit "1Gi"',
            "raise workers.shm",
            id="shm",
        ),
        pytest.param(
            "Evicted",
            'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
            'run1-worker-1: evicted: Usage of EmptyDir volume "scratch" exceeds the limit "1Gi"',
            "raise the sizeLimit of volume scratch, or write less there",
            id="empty-dir",
        ),
        pytest.param(
            "Evicted",
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. ",
            "run1-worker-1: evicted: The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi",
            "set workers.memory: kubelet first evicts pods that use more than they request",
            id="memory",
        ),
        pytest.param(
            "Evicted",
            "The node had condition: [DiskPressure]. ",
            "run1-worker-1: evicted: The node had condition: [DiskPressure]",
            "free disk space on the node, or write less",
            id="disk",
        ),
        pytest.param(
            "Evicted",
            'Container worker exceeded its local ephemeral storage limit "1Mi". ',
            'run1-worker-1: evicted: Container worker exceeded its local ephemeral storage limit "1Mi"',
            "log and write less: the LimitRange of the namespace sets this limit",
            id="local-storage",
        ),
        pytest.param(
            "UnexpectedAdmissionError",
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 4, "
            "Available: 0, which is unexpected",
            "run1-worker-1: kubelet rejects the pod: Allocate failed due to requested number of devices unavailable "
            "for nvidia.com/gpu. Requested: 4, Available: 0, which is unexpected",
            "see that the node's devices are healthy",
            id="devices",
        ),
        pytest.param(
            "OutOfnvidia.com/gpu",
            "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8",
            "run1-worker-1: kubelet rejects the pod: Node didn't have enough resource: nvidia.com/gpu, requested: 1, "
            "used: 8, capacity: 8",
            "wait: another pod took the node's nvidia.com/gpu first",
            id="out-of-gpus",
        ),
        pytest.param(
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed",
            "run1-worker-1: kubelet rejects the pod: Pod was rejected: Predicate NodeAffinity failed",
            "the node's labels have changed: correct workers.nodeSelector, or label the node again",
            id="node-affinity",
        ),
        pytest.param(
            "Terminated",
            "Pod was terminated in response to imminent node shutdown.",
            "run1-worker-1: its node shut down: Pod was terminated in response to imminent node shutdown",
            "bring the node back, or wait",
            id="node-shutdown",
        ),
    ],
)
def test_pod_that_kubelet_has_ended_is_explained(
    api: FakeApi, status: Run, reason: str, message: str, why: str, then: str
) -> None:
    ended = pod("worker", 1, phase="Failed", reason=reason, message=message)
    serve(api, PYTORCH, pods=[pod("worker", 0), ended])

    assert told(status("run1"))[1:] == (why, then)


def test_failed_run_names_the_eviction_and_not_the_operators_count(api: FakeApi, status: Run) -> None:
    message = 'Container launcher exceeded its local ephemeral storage limit "1Mi". '
    evicted = pod("launcher", phase="Failed", reason="Evicted", message=message)
    serve(api, live({**MPI, "status": {}}, "Failed"), pods=[evicted])

    assert told(status("run1")) == (
        "Failed",
        'run1-launcher: evicted: Container launcher exceeded its local ephemeral storage limit "1Mi"',
        "log and write less: the LimitRange of the namespace sets this limit",
    )


def test_failed_launcher_that_was_replaced_is_not_told_while_the_run_trains(api: FakeApi, status: Run) -> None:
    evicted = pod("launcher", phase="Failed", reason="Evicted", message="The node was low on resource: memory. ")
    evicted["metadata"] = {**evicted["metadata"], "name": "run1-launcher-old", "uid": "uid-old"}
    serve(api, MPI, pods=[evicted, pod("launcher"), pod("worker", 0), pod("worker", 1)])

    assert told(status("run1"))[:2] == ("Running", "")


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("PreemptionByScheduler", "run1-worker-1: a pod of higher priority took its place"),
        ("EvictionByEvictionAPI", "run1-worker-1: it was evicted, as when its node is drained"),
        ("DeletionByTaintManager", "run1-worker-1: its node is lost, or has a taint that the pod does not tolerate"),
        ("DeletionByPodGC", "run1-worker-1: its node no longer exists"),
    ],
)
def test_pod_that_is_being_deleted_says_why_while_none_has_its_place(
    api: FakeApi, status: Run, reason: str, why: str
) -> None:
    leaving = pod("worker", 1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    leaving["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": reason})
    serve(api, PYTORCH, pods=[pod("worker", 0), leaving])

    assert told(status("run1"))[1] == why

    serve(api, PYTORCH, pods=[pod("worker", 0), pod("worker", 1), leaving])

    assert told(status("run1"))[1] == ""


def test_node_that_does_not_answer_is_named_although_the_containers_count_as_running(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=[_on_lost_node(0), _on_lost_node(1)])

    assert told(status("run1"))[1:] == (
        "node gpu-a does not answer: run1-worker-0 and 1 more ran there",
        "bring the node back; if it is off for good, `kubectl delete node NODE` lets the pods start elsewhere",
    )


def _on_lost_node(number: int, **metadata: str) -> Object:
    lost = pod("worker", number)
    lost["metadata"] |= metadata
    lost["spec"]["nodeName"] = "gpu-a"
    lost["status"]["conditions"] = [
        {"type": "Ready", "status": "False"},
        {"type": "ContainersReady", "status": "True"},
    ]
    return lost


def test_lost_node_comes_before_the_lack_of_room_that_follows_from_it(api: FakeApi, status: Run) -> None:
    lost = _on_lost_node(1, deletionTimestamp="2026-01-01T00:01:00Z")
    serve(api, PYTORCH, pods=[pod("worker", 0), lost, unplaced("worker", 1)])

    assert told(status("run1"))[:2] == ("Pending", "node gpu-a does not answer: run1-worker-1 ran there")

    serve(api, PYTORCH, pods=[pod("worker", 0), lost, pod("worker", 1)])

    assert told(status("run1"))[:2] == ("Running", "")


def test_no_log_is_asked_of_a_node_that_does_not_answer(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=[_on_lost_node(0), pod("worker", 1)])

    status("run1")

    logs = [request for request in api.requests if "/log?" in request]
    assert len(logs) == 1
    assert "/run1-worker-1/log?" in logs[0]


@pytest.mark.parametrize(("job", "operator"), [(MPI, "mpi-operator"), (PYTORCH, "training-operator")])
def test_operator_that_does_not_answer_is_named(api: FakeApi, status: Run, job: Object, operator: str) -> None:
    serve(api, {**job, "status": {}})

    assert told(status("run1")) == (
        "Pending",
        f"{operator} has not answered: the {job['kind']} has no status, and no pod was made yet",
        f"wait; if this lasts, {operator} does not run: `helm distrain doctor --namespace team` shows its pods",
    )


def test_operator_that_has_answered_is_not_blamed(api: FakeApi, status: Run) -> None:
    serve(api, live({**PYTORCH, "status": {}}, "Created"))

    assert told(status("run1"))[1] == "no pod was made yet"


def _failed(reason: str, message: str) -> Object:
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    return {**MPI, "status": {"conditions": [condition]}}


def _ended_launcher(**end: Any) -> Object:
    status = {"name": "launcher", "state": {"terminated": {"exitCode": 1, **end}}}
    return pod("launcher", phase="Failed", containerStatuses=[status])


def test_deadline_comes_before_what_the_stopped_program_says(api: FakeApi, status: Run) -> None:
    launcher = _ended_launcher(message="distrain: stopped by SIGTERM at step 7", exitCode=143)
    serve(api, _failed("DeadlineExceeded", "Job was active longer than specified deadline"), pods=[launcher])

    assert told(status("run1")) == (
        "Failed",
        "job.activeDeadlineSeconds: the run was active for longer than this",
        "raise it: with checkpoint.uri the run goes on from its last checkpoint",
    )


def test_backoff_limit_is_named_if_no_pod_is_left_toserve_events(api: FakeApi, status: Run) -> None:
    serve(api, _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit"))

    assert told(status("run1"))[1:] == (
        "job.maxRestarts: no restart is left: Job has reached the specified backoff limit",
        "read the run's record with `status --record`, or raise it",
    )


def test_memory_comes_before_the_backoff_limit(api: FakeApi, status: Run) -> None:
    launcher = _ended_launcher(reason="OOMKilled", exitCode=137)
    serve(api, _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit"), pods=[launcher])

    assert told(status("run1"))[1:] == (
        "launcher.memory: out of memory: container launcher of run1-launcher was killed at its limit",
        "raise launcher.memory",
    )


def test_program_that_the_image_lacks_is_named_once_the_job_has_failed(api: FakeApi, status: Run) -> None:
    message = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
        'unable to start container process: exec: "train.sh": executable file not found in $PATH: unknown'
    )
    launcher = _ended_launcher(reason="StartError", message=message, exitCode=128)
    serve(api, _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit"), pods=[launcher])

    assert told(status("run1"))[1:] == (
        "image.repository: the image r:1 cannot run train.sh: executable file not found in $PATH",
        "use an image with this program",
    )


EXIT = "mpirun ended with exit code {}; this pod's log says why (the first of 3 failures within 3600 s)"


@pytest.mark.parametrize(
    ("log", "why", "then"),
    [
        pytest.param(
            "Traceback (most recent call last):\nValueError: no such model\n",
            "run1-launcher: ValueError: no such model",
            "read `kubectl --namespace team logs run1-launcher`",
            id="exception",
        ),
        pytest.param(
            "distrain@run1-worker-0.run1.team.svc: Permission denied (publickey).\n",
            "ssh: a worker does not let the launcher in: Permission denied (publickey)",
            "give ssh.secretName a Secret whose authorized_keys has its id_rsa.pub, or leave it empty",
            id="ssh-key",
        ),
        pytest.param(
            "Host key verification failed.\n",
            "ssh: a worker does not let the launcher in: Host key verification failed",
            "give ssh.secretName a Secret whose authorized_keys has its id_rsa.pub, or leave it empty",
            id="ssh-host-key",
        ),
        pytest.param(
            "nothing to see\n",
            "run1-launcher: mpirun ended with exit code 1",
            "read `kubectl --namespace team logs run1-launcher`",
            id="nothing",
        ),
    ],
)
def test_failed_program_is_explained_by_its_log(api: FakeApi, status: Run, log: str, why: str, then: str) -> None:
    launcher = _ended_launcher(message=f"distrain: {EXIT.format(1)}")
    serve(api, _failed("BackoffLimitExceeded", "Job has reached"), pods=[launcher], run1_launcher=log)

    assert told(status("run1")) == ("Failed", why, then)


@pytest.mark.parametrize(
    ("reason", "then"),
    [
        ("connection refused", "wait until sshd runs there; if this lasts, read the log of the worker"),
        (
            "no answer",
            "a NetworkPolicy or a service mesh may drop the packets: allow ssh.port between the run's pods",
        ),
    ],
)
def test_worker_that_does_not_answer_is_named_with_the_next_step(
    api: FakeApi, status: Run, reason: str, then: str
) -> None:
    words = f"waiting for 1 of 2 workers: run1-worker-1 ({reason})"
    up = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
    trainer = json.loads(json.dumps(MPI).replace('"image": ', '"args": ["-m", "distrain_trainer"], "image": '))
    serve(api, trainer, pods=up, run1_launcher=f"distrain-launch: 12 s: {words}\n")

    assert told(status("run1")) == ("Starting", words, then)


def test_container_that_ends_after_each_start_has_the_command_that_reads_its_log(api: FakeApi, status: Run) -> None:
    end = {"terminated": {"exitCode": 3, "reason": "Error"}}
    crashing = {"name": "log", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end}
    serve(api, PYTORCH, pods=[pod("worker", 0), pod("worker", 1, containerStatuses=[crashing])])

    assert told(status("run1"))[1:] == (
        "run1-worker-1: starts and ends again and again: Error (exit code 3)",
        "read `kubectl --namespace team logs run1-worker-1 -c log --previous`",
    )


def test_port_in_use_is_named_instead_of_sshds_end(api: FakeApi, status: Run) -> None:
    message = (
        "Bind to port 22 on 0.0.0.0 failed: Address already in use.\r\nCannot bind any address.\r\n"
        "distrain: ssh.port: sshd ended (exit code 255); its last lines say why\n"
    )
    end = {"terminated": {"exitCode": 1, "message": message}}
    crashing = {"name": "worker", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end}
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), pod("worker", 1, containerStatuses=[crashing])])

    assert told(status("run1")) == (
        "Starting",
        "ssh.port: port 22 is in use on the node",
        "choose another ssh.port",
    )


def test_failed_run_is_explained_by_its_launchers_log_and_not_by_workers_that_still_run(
    api: FakeApi, status: Run
) -> None:
    launcher = _ended_launcher(message=f"distrain: {EXIT.format(255)}")
    refused, fine = (
        "distrain@run1-worker-0: Permission denied (publickey).\n",
        "Server listening on 0.0.0.0 port 2222.\n",
    )
    job = _failed("BackoffLimitExceeded", "Job has reached")
    serve(api, job, pods=[launcher, pod("worker", 0)], run1_launcher=refused, run1_worker_0=fine)

    assert told(status("run1"))[1] == "ssh: a worker does not let the launcher in: Permission denied (publickey)"


def test_lack_of_memory_that_the_launcher_supposes_has_a_next_step(api: FakeApi, status: Run) -> None:
    words = "rank 0 on run1-worker-0 was killed by signal 9, as when memory runs out"
    launcher = _ended_launcher(message=f"distrain: {words}; see workers.memory")
    serve(api, _failed("BackoffLimitExceeded", "Job has reached"), pods=[launcher])

    assert told(status("run1"))[1:] == (words, "raise workers.memory, or lower trainer.batchSize")


@pytest.mark.parametrize(
    ("why", "then"),
    [
        pytest.param("no address yet", "wait: a pod's name gets its address", id="no-address"),
        pytest.param("the name server does not answer", "check the cluster's DNS: kubectl", id="no-dns"),
        pytest.param("connection refused", "wait until sshd runs there", id="refused"),
        pytest.param("no answer", "a NetworkPolicy or a service mesh may drop the packets", id="no-answer"),
        pytest.param("what answers is not sshd", "something else has this port in the worker", id="not-sshd"),
        pytest.param("sshd says nothing", "wait: the worker's node is busy", id="silent"),
    ],
)
def test_program_whose_launcher_waits_for_workers_does_not_count_as_running(
    api: FakeApi, status: Run, why: str, then: str
) -> None:
    assert f'"{why}"' in (SCRIPTS / "distrain_workers.py").read_text()
    words = f"waiting for 1 of 2 workers: run1-worker-1 ({why})"
    up = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
    serve(api, MPI, pods=up, run1_launcher=f"distrain-launch: 12 s: {words}\n")

    phase, cause, next_step = told(status("run1"))
    assert (phase, cause) == ("Starting", words)
    assert next_step.startswith(then)
