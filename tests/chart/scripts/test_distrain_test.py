"""Test distrain-test as a real process. A fake API server on loopback reports the pods."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.chart.scripts import fake_kube
from tests.chart.scripts.fake_kube import Kube, Object, status

PODS = "/api/v1/namespaces/team/pods"
LOG = "size  time\n1 KiB  10 us\nall-reduce is right on 2 ranks\n"


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[Kube]:
    with fake_kube.running(tmp_path) as kube:
        yield kube


def pod(role: str, phase: str, name: str = "", **more: Object | list[Object] | str) -> Object:
    name = name or f"run1-test-{role}"
    labels = {"app.kubernetes.io/instance": "run1-test", "app.kubernetes.io/component": role}
    metadata = {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "4", "memory": "8Gi"}}} if role == "worker" else {}
    containers = [{"name": role, **gpus}, {"name": "sidecar"}]
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": phase, **more}}


def ended(code: int, message: str = "") -> Object:
    return {"containerStatuses": [{"name": "x", "state": {"terminated": {"exitCode": code, "message": message}}}]}


def unplaced(reason: str = "Unschedulable") -> Object:
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": words}
    return {"conditions": [condition]}


class Cluster:
    """A fake API server. Each request gets the next list of pods. The last list of pods is returned again and again."""

    def __init__(self, *looks: list[Object], **logs: str) -> None:
        self.looks = list(looks)
        self.logs = logs

    def __call__(self, method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        path, _, query = unquote(path).partition("?")
        if path == PODS and query == "labelSelector=app.kubernetes.io/instance=run1-test":
            return 200, {"items": self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]}
        name = path[len(PODS) + 1 :].replace("/log", "").replace("run1-test-", "").replace("-", "_")
        if path.endswith("/log") and name in self.logs:
            return 200, self.logs[name]
        return 404, status(404, f"{path} not found")


def run(kube: Kube, timeout: str = "60", **settings: str) -> tuple[int, list[str], str]:
    """Return the exit code, the lines on stdout, and stderr."""
    name = "run1-test-0a1b2c3d"
    arguments = [f"--job={name}", "--instance=run1-test", "--workers=2", f"--timeout={timeout}", "--kind=MPIJob"]
    message_file(kube).write_text("")
    arguments.append(f"--termination-log={message_file(kube)}")
    done = kube.run("distrain-test", *arguments, **settings)
    return done.returncode, done.stdout.splitlines(), done.stderr


def message_file(kube: Kube) -> Path:
    """Return the path of the file with the Pod's termination message."""
    return kube.folder / "termination-log"


RUNNING = [pod("launcher", "Running"), pod("worker", "Running", "run1-test-worker-0")]


def test_launchers_log_is_the_result(kube: Kube) -> None:
    end = [pod("worker", "Running", "run1-test-worker-0"), pod("launcher", "Succeeded")]
    kube.answer = Cluster([], RUNNING, end, launcher=LOG)

    code, lines, errors = run(kube)

    assert (code, errors) == (0, "")
    assert lines == LOG.splitlines()
    assert kube.requests[-1].endswith("/run1-test-launcher/log?container=launcher&limitBytes=1000000")
    assert message_file(kube).read_text() == "all-reduce is right on 2 ranks"


def test_without_a_launcher_the_rank_that_measured_tells(kube: Kube) -> None:
    # torchrun may choose any worker as rank 0. Here the rank is in worker 2, so only the log of worker 2 contains the
    # result.
    workers = [pod("worker", "Succeeded", f"run1-test-worker-{index}") for index in (10, 2, 0)]
    kube.answer = Cluster(workers, worker_0="nothing\n", worker_2=LOG, worker_10="nothing\n")

    code, lines, _ = run(kube)

    assert (code, lines) == (0, LOG.splitlines())


def test_master_comes_before_the_workers(kube: Kube) -> None:
    kube.answer = Cluster([pod("worker", "Succeeded"), pod("master", "Succeeded")], master=LOG, worker="other\n")

    assert run(kube)[:2] == (0, LOG.splitlines())


def test_failing_pods_own_words_come_first(kube: Kube) -> None:
    message = "starting\ndistrain: data.uri: gone\n[host] mpirun: killed\n"
    kube.answer = Cluster(RUNNING, [pod("launcher", "Failed", **ended(1, message))], launcher="the log\n")

    code, lines, errors = run(kube)

    assert code == 1
    assert lines == ["distrain-test: run1-test-launcher failed: data.uri: gone", "the log"]
    assert errors == "distrain: the test failed: run1-test-launcher: data.uri: gone\n"
    assert message_file(kube).read_text() == errors.rstrip("\n")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param(ended(137), "exit code 137", id="no-words"),
        pytest.param(ended(1, "one\nlast\n\n"), "last", id="only-a-log"),
        pytest.param({"reason": "Evicted", "message": "The node was low on memory."}, "The node was", id="evicted"),
    ],
)
def test_worker_that_fails_fails_the_test(kube: Kube, more: Object, words: str) -> None:
    kube.answer = Cluster([pod("launcher", "Running"), pod("worker", "Failed", **more)])

    code, _, errors = run(kube)

    assert code == 1
    assert errors.startswith(f"distrain: the test failed: run1-test-worker: {words}")


def test_worker_that_is_deleted_after_the_end_is_no_failure(kube: Kube) -> None:
    deleted = pod("worker", "Failed", **ended(143))
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    kube.answer = Cluster([pod("launcher", "Running"), deleted], [pod("launcher", "Succeeded"), deleted], launcher=LOG)

    assert run(kube)[0] == 0


def test_pods_that_do_not_fit_end_the_test_with_advice(kube: Kube) -> None:
    kube.answer = Cluster([pod("launcher", "Running"), pod("worker", "Pending", **unplaced())])
    kube.change("distrain-test", "SECONDS_TO_PLACE = 10", "SECONDS_TO_PLACE = 3")
    started = time.monotonic()

    code, _, errors = run(kube)

    assert code == 10
    assert errors == (
        "distrain: test.workers: no node has room for run1-test-worker: 0/1 nodes are available: 1 Insufficient "
        "nvidia.com/gpu. Each of the test's 2 workers needs 4 free nvidia.com/gpu; lower test.workers, or run helm "
        "test while the job is not running\n"
    )
    assert time.monotonic() - started > 3


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        pytest.param(unplaced("SchedulingGated"), "run1-test-worker (Pending)", id="held-by-a-queue"),
        pytest.param(
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "run1-test-worker (ImagePullBackOff)",
            id="image",
        ),
    ],
)
def test_time_out_names_what_is_waited_for(kube: Kube, conditions: Object, words: str) -> None:
    kube.answer = Cluster([pod("launcher", "Running"), pod("worker", "Pending", **conditions)])
    kube.change("distrain-test", "SECONDS_BETWEEN_LOOKS = 2", "SECONDS_BETWEEN_LOOKS = 0.1")
    kube.change("distrain-test", "SECONDS_BETWEEN_REPORTS = 10", "SECONDS_BETWEEN_REPORTS = 1")

    code, lines, errors = run(kube, timeout="4")

    assert code == 1
    assert errors == (
        f"distrain: test.timeoutSeconds: the test did not finish within 4 s: waiting for {words}; "
        "see why with kubectl describe mpijob run1-test-0a1b2c3d\n"
    )
    # The script reports at most once per second. On a busy machine there are fewer reports.
    assert 1 <= len(lines) <= 3
    assert all(re.fullmatch(rf"distrain-test: [1-4] s: waiting for {re.escape(words)}", line) for line in lines)


def test_time_out_without_any_pod_names_the_job(kube: Kube) -> None:
    others = pod("", "Running", "run1-test-follower")
    kube.answer = Cluster([others])

    assert "within 1 s: job run1-test-0a1b2c3d has no pod yet; see" in run(kube, timeout="1")[2]


def test_time_out_of_a_running_job_says_how_many_run(kube: Kube) -> None:
    kube.answer = Cluster(RUNNING)

    assert "1 of 2 workers run; waiting for run1-test-launcher to end; see" in run(kube, timeout="1")[2]


def test_missing_right_is_reported(kube: Kube) -> None:
    kube.answer = lambda *_: (403, status(403, "pods is forbidden"))

    code, _, errors = run(kube)

    assert code == 1
    assert errors == (
        "distrain: the test cannot read its pods: pods is forbidden; "
        "give its ServiceAccount a Role with get and list on pods and pods/log\n"
    )


def test_result_without_its_log_is_still_the_result(kube: Kube) -> None:
    kube.answer = Cluster([pod("launcher", "Succeeded")])

    code, lines, _ = run(kube)

    assert code == 0
    assert lines == [f"distrain-test: no log of run1-test-launcher: {PODS}/run1-test-launcher/log not found"]
