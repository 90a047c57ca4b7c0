"""Test distrain-replace as a real process, with an API on loopback."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.waiting import wait_until
from tests.chart.scripts import fake_kube
from tests.chart.scripts.fake_kube import Kube, Object, status

MPIJOB = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/run1"
PYTORCHJOB = "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs/run1"
WORKERS = "/apis/batch/v1/namespaces/team/jobs/run1-plain-worker"
LAUNCHER = "/apis/batch/v1/namespaces/team/jobs/run1-plain-launcher"
OBJECTS = (
    "kubeflow.org/v2beta1/mpijobs/run1",
    "kubeflow.org/v1/pytorchjobs/run1",
    "batch/v1/jobs/run1-plain-launcher",
    "batch/v1/jobs/run1-plain-worker",
)


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[Kube]:
    with fake_kube.running(tmp_path) as kube:
        yield kube


@dataclass
class Cluster:
    """A fake API server. `jobs` maps a path to the job that is served there.

    After a job is deleted, the fake API still returns the job for `looks` requests, as if its pods had not ended yet.
    """

    jobs: dict[str, Object]
    looks: int = 2
    deleted: list[str] = field(default_factory=list)

    def __call__(self, method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        path, _, query = path.partition("?")
        if path not in self.jobs:
            return 404, status(404, f"{path} not found")
        item = self.jobs[path]
        if method == "DELETE":
            assert query == "propagationPolicy=Foreground"
            self.deleted.append(path)
            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        elif path in self.deleted or "deletionTimestamp" in item["metadata"]:
            self.looks -= 1
            if self.looks < 0:
                del self.jobs[path]
        return 200, item


def job(kind: str, name: str, content: str | None, instance: str = "run1") -> Object:
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": instance}
    annotations = {"distrain/content": content} if content else None
    return {"kind": kind, "metadata": {"name": name, "uid": "1", "labels": labels, "annotations": annotations}}


def run(kube: Kube, **options: str) -> subprocess.CompletedProcess[str]:
    message = kube.folder / "message"
    given = {"content": "new", "instance": "run1", "resource": "mpijobs", "message": str(message), **options}
    arguments = [*(f"--{key}={value}" for key, value in given.items()), *(f"--object={name}" for name in OBJECTS)]
    return kube.run("distrain-replace", *arguments)


def test_job_of_another_content_is_ended_and_waited_for(kube: Kube) -> None:
    kube.answer = cluster = Cluster({MPIJOB: job("MPIJob", "run1", "old")})
    (kube.folder / "message").touch()

    done = run(kube)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"distrain-replace: ended MPIJob run1 in \d+ s, so that Helm can create it with", done.stdout)
    assert cluster.deleted == [MPIJOB]
    assert cluster.jobs == {}
    # The script also writes its output to the termination message, which Helm and `kubectl describe` show after the log
    # is gone.
    assert (kube.folder / "message").read_text() == done.stdout


def test_message_is_left_only_where_kubernetes_takes_one_from(kube: Kube) -> None:
    assert run(kube).returncode == 0

    assert not (kube.folder / "message").exists()


def test_job_of_the_same_content_is_left_alone(kube: Kube) -> None:
    kube.answer = cluster = Cluster({MPIJOB: job("MPIJob", "run1", "new")})

    done = run(kube)

    assert done.returncode == 0
    assert "MPIJob run1: nothing changes that it cannot take over while it runs; it is left alone" in done.stdout
    assert cluster.deleted == []


def test_without_a_job_there_is_nothing_to_do(kube: Kube) -> None:
    done = run(kube)

    assert done.stdout == "distrain-replace: no job of this release is there; nothing to do\n"
    assert not [request for request in kube.requests if request.startswith("DELETE")]


def test_job_of_another_kind_is_ended(kube: Kube) -> None:
    kube.answer = cluster = Cluster({PYTORCHJOB: job("PyTorchJob", "run1", "old")})

    assert "ended PyTorchJob run1" in run(kube).stdout
    assert cluster.deleted == [PYTORCHJOB]


def test_all_parts_of_a_plain_job_are_ended(kube: Kube) -> None:
    parts = {path: job("Job", path.rpartition("/")[2], "old") for path in (LAUNCHER, WORKERS)}
    kube.answer = cluster = Cluster(parts)

    done = run(kube)

    assert "ended Job run1-plain-launcher and Job run1-plain-worker" in done.stdout
    assert cluster.deleted == [LAUNCHER, WORKERS]


@pytest.mark.parametrize("instance", ["run2", ""])
def test_job_of_the_same_name_that_is_not_the_releases_stays(kube: Kube, instance: str) -> None:
    kube.answer = cluster = Cluster({MPIJOB: job("MPIJob", "run1", None, instance)})

    assert "no job of this release is there" in run(kube).stdout
    assert cluster.deleted == []


BY_HELM, BY_OTHER = ({"meta.helm.sh/release-name": release} for release in ("run1", "run2"))


@pytest.mark.parametrize(
    ("own", "labelled", "annotations", "ended"),
    [
        pytest.param("run1", "application", {}, True, id="argo-cd-changed-the-label"),
        pytest.param("run2", "run1", {}, False, id="job-of-another-release"),
        pytest.param(None, "application", {}, True, id="argo-cd-changed-the-label-of-an-older-job"),
        pytest.param(None, "run1", BY_HELM, True, id="older-job"),
        pytest.param(None, "application", BY_HELM, True, id="argo-cd-took-over-an-older-job"),
        pytest.param(None, "run2", BY_OTHER, False, id="older-job-of-another-release"),
    ],
)
def test_job_is_recognized_although_argo_cd_changes_its_label(
    kube: Kube, own: str | None, labelled: str, annotations: dict[str, str], ended: bool
) -> None:
    found = job("MPIJob", "run1", "old", labelled)
    found["metadata"]["labels"] |= {"distrain/instance": own} if own else {}
    found["metadata"]["annotations"] |= annotations
    kube.answer = cluster = Cluster({MPIJOB: found})

    assert run(kube).returncode == 0
    assert cluster.deleted == ([MPIJOB] if ended else [])


def test_older_job_of_another_kind_may_belong_to_another_release(kube: Kube) -> None:
    # Two releases may name their MPIJob run1-small: run1 with the alias small, and run1-small.
    kube.answer = cluster = Cluster({MPIJOB: job("MPIJob", "run1", "old", "other")})

    assert run(kube, resource="jobs").returncode == 0
    assert cluster.deleted == []


def test_job_that_is_being_deleted_is_waited_for(kube: Kube) -> None:
    ending = job("MPIJob", "run1", "new")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kube.answer = cluster = Cluster({MPIJOB: ending}, looks=3)

    assert run(kube).returncode == 0
    assert cluster.jobs == {}


def test_job_that_is_made_again_meanwhile_counts_as_gone(kube: Kube) -> None:
    cluster = Cluster({MPIJOB: job("MPIJob", "run1", "old")})

    def made_again(method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        answer = cluster(method, path, body)
        if MPIJOB not in cluster.jobs:
            again = job("MPIJob", "run1", "new")
            again["metadata"]["uid"] = "2"
            cluster.jobs[MPIJOB], cluster.looks = again, 1000
        return answer

    kube.answer = made_again

    assert run(kube).returncode == 0
    assert cluster.deleted == [MPIJOB]


def test_job_whose_pods_do_not_end_stops_the_upgrade(kube: Kube) -> None:
    kube.answer = Cluster({MPIJOB: job("MPIJob", "run1", "old")}, looks=1000)

    done = run(kube, timeout="1")

    assert done.returncode == 1
    assert done.stderr.startswith("distrain: MPIJob run1 is not gone 1 s after it was deleted: a pod does not end")
    assert "kubectl get pods --selector app.kubernetes.io/instance=run1" in done.stderr


NEXT_STEP = (
    "; the job is deleted: upgrade again, or helm rollback; "
    "training goes on from the last checkpoint in checkpoint.uri\n"
)


def busy_after(cluster: Cluster, answers: int) -> Callable[[str, str, Object | None], tuple[int, Object | str]]:
    """Answer 503 to the requests after a DELETE, as if the API server restarted."""
    left = [answers]

    def answer(method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        if method == "GET" and cluster.deleted and left[0]:
            left[0] -= 1
            return 503, status(503, "apiserver is shutting down")
        return cluster(method, path, body)

    return answer


def test_api_server_that_restarts_after_the_delete_is_waited_for(kube: Kube) -> None:
    kube.change("distrain_kube.py", "PAUSES = (1, 2, 4, 8)", "PAUSES = (0,)")
    kube.answer = busy_after(Cluster({MPIJOB: job("MPIJob", "run1", "old")}), 5)

    done = run(kube)

    assert (done.returncode, done.stderr) == (0, "")
    assert "ended MPIJob run1" in done.stdout


def test_api_server_that_never_answers_after_the_delete_is_reported_with_what_to_do(kube: Kube) -> None:
    kube.change("distrain_kube.py", "PAUSES = (1, 2, 4, 8)", "PAUSES = (0,)")
    kube.answer = busy_after(Cluster({MPIJOB: job("MPIJob", "run1", "old")}), 10_000)

    done = run(kube, timeout="1")

    assert done.returncode == 1
    assert done.stderr == (
        "distrain: MPIJob run1 was deleted, and the API server has not said within 1 s that it is gone "
        f"(apiserver is shutting down){NEXT_STEP}"
    )


def test_right_that_is_missing_for_the_second_job_is_told_with_the_first_one_deleted(kube: Kube) -> None:
    cluster = Cluster({path: job("Job", path.rpartition("/")[2], "old") for path in (LAUNCHER, WORKERS)})

    def answer(method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        if method == "DELETE" and path.startswith(WORKERS):
            return 403, status(403, "jobs is forbidden")
        return cluster(method, path, body)

    kube.answer = answer

    done = run(kube)

    assert (done.returncode, cluster.deleted) == (1, [LAUNCHER])
    assert "refuses this pod's ServiceAccount (jobs is forbidden)" in done.stderr
    assert done.stderr.endswith(NEXT_STEP)


def test_hook_that_is_stopped_after_the_delete_says_that_the_job_is_deleted(kube: Kube) -> None:
    kube.answer = Cluster({MPIJOB: job("MPIJob", "run1", "old")}, looks=1000)
    process = kube.start(
        "distrain-replace", "--content=new", "--instance=run1", "--resource=mpijobs", f"--object={OBJECTS[0]}"
    )
    # The requests are GET, DELETE, GET. The hook sends the second GET after it has read the answer to DELETE.
    wait_until("the hook waits for the job's end", lambda: len(kube.requests) > 2, seconds=60)

    process.terminate()
    _, errors = process.communicate(timeout=300)

    assert (process.returncode, errors) == (143, f"distrain: stopped by SIGTERM{NEXT_STEP}")


@pytest.mark.parametrize("kind", ["operators", "plain"])
def test_job_has_the_grace_period_of_its_own_pods_to_end(kube: Kube, kind: str) -> None:
    kube.change("distrain-replace", "SECONDS_BEYOND_GRACE = 60", "SECONDS_BEYOND_GRACE = 1")
    pods = [{"template": {"spec": {"terminationGracePeriodSeconds": seconds}}} for seconds in (1, 2)]
    item = job("MPIJob", "run1", "old")
    item["spec"] = {"mpiReplicaSpecs": dict(zip(("Launcher", "Worker"), pods, strict=True))}
    if kind == "plain":
        item["spec"] = pods[1]
    kube.answer = Cluster({MPIJOB: item}, looks=1000)

    done = run(kube, timeout="1")

    assert done.stderr.startswith("distrain: MPIJob run1 is not gone 3 s after it was deleted: a pod does not end")


def test_finalizer_that_stays_is_named(kube: Kube) -> None:
    held = job("MPIJob", "run1", "old")
    held["metadata"]["finalizers"] = ["foregroundDeletion", "example.org/audit"]
    kube.answer = Cluster({MPIJOB: held}, looks=1000)

    done = run(kube, timeout="1")

    assert done.returncode == 1
    assert "MPIJob run1 is not gone 1 s after it was deleted: metadata.finalizers: example.org/audit is" in done.stderr


def test_job_that_changes_while_it_is_deleted_is_deleted_again(kube: Kube) -> None:
    cluster = Cluster({MPIJOB: job("MPIJob", "run1", "old")})
    refused: list[str] = []

    def changes(method: str, path: str, body: Object | None) -> tuple[int, Object | str]:
        if method == "DELETE" and not refused:
            refused.append(path)
            return 409, status(409, "the object has been modified")
        return cluster(method, path, body)

    kube.answer = changes

    assert run(kube).returncode == 0
    assert cluster.deleted == [MPIJOB]


@pytest.mark.parametrize("answer", ["<html>Log in</html>", "[]", "\ufffd"])
def test_answer_that_is_no_object_is_reported_in_one_line(kube: Kube, answer: str) -> None:
    kube.answer = lambda *_: (200, answer)

    done = run(kube)

    assert done.returncode == 1
    assert re.fullmatch(
        r"distrain: https://\S+: answers with something that is no Kubernetes object; .*\n", done.stderr
    )


@pytest.mark.parametrize("code", [200, 400])
def test_answer_that_is_cut_is_reported_in_one_line(kube: Kube, code: int) -> None:
    kube.change("distrain_kube.py", "PAUSES = (1, 2, 4, 8)", "PAUSES = (0,)")
    kube.answer, kube.cut = lambda *_: (code, status(code, "bad")), 9

    done = run(kube)

    assert done.returncode == 1
    assert re.fullmatch(r"distrain: .+\n", done.stderr)


def test_account_without_the_right_is_told_the_role(kube: Kube) -> None:
    kube.answer = lambda *_: (403, status(403, "mpijobs is forbidden"))

    done = run(kube)

    assert done.returncode == 1
    assert done.stderr.startswith(
        "distrain: replace.serviceAccountName: the API server refuses this pod's ServiceAccount (mpijobs "
        "is forbidden); give it a "
        "Role with get and delete on kubeflow.org/v2beta1/mpijobs/run1, "
    )
