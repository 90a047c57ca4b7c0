"""Test that the old job is deleted before Helm creates a new job of the same name.

If Helm fails, the old job is restored.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.errors import EndError, ForbiddenError, HelmError, StoppedError, UnreachableError
from distrain.helm.program import Source
from distrain.helm.releases import Operation, Status
from distrain.kube.resource import Resource
from distrain.release import ending
from distrain.release.plan import Before, Next, Plan, lines, plan
from distrain.release.transaction import Interrupts, Release, Tools
from distrain.release.upgrade import upgrade
from distrain.workload.manifest import from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, mpi_job, plain

RELEASE = Release("run1", Source(Path("chart"), ()), Target("config", "context", "team"))
JOB = Resource("kubeflow.org/v2beta1", "MPIJob", "run1")

pytestmark = pytest.mark.usefixtures("signals", "hurried")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "POLL_SECONDS", 0)


class Fakes:
    """A fake cluster and a fake Helm that record changes. The deleted job is gone after `looks` requests for it.

    After Helm has failed, the API server does not answer the next `away` requests for its version.
    """

    target = RELEASE.target

    def __init__(self, looks: int = 2, *, fails: bool = False, has_made: bool = True, away: int = 0) -> None:
        self.looks, self.fails, self._has_made, self._away = looks, fails, has_made, away
        self.changes: list[str] = []
        self.told: list[str] = []

    def delete_workload(self, resource: Resource, _: str) -> str:
        self.changes.append(f"delete {resource.name}")
        return "uid"

    def workload(self, *_: object) -> kube.Workload | None:
        self.looks -= 1
        return None if self.looks < 0 else kube.Workload(kube.TemplateMetadata(uid="uid"))

    def upgrade(self, *_: Any) -> str:
        self.changes.append("upgrade")
        if self.fails:
            raise HelmError("forbidden")
        return "notes"

    def version(self) -> str:
        self._away -= 1
        if self._away >= 0:
            raise UnreachableError("the API server is away")
        return "v1.34.4"

    def status(self, *_: Any) -> Status:
        if self._away > 0:
            raise HelmError("kubernetes cluster unreachable")
        return Status("deployed", 4 if self._has_made else 3)

    def has_made(self, *_: Any) -> bool:
        if self._away > 0:
            raise HelmError("kubernetes cluster unreachable")
        return self._has_made

    def rollback(self, *_: Any) -> None:
        self.changes.append("rollback")

    def run(self, ends: Sequence[Resource] = (JOB,)) -> None:
        itself: Any = self
        tools = Tools(itself, itself, Interrupts(), self.told.append, self.told.append)
        upgrade(tools, RELEASE, Operation("abc"), Plan("run1", 3, {}, [], ends=ends), "", followed=None)


def test_old_job_is_gone_before_helm_creates_the_new_one() -> None:
    fakes = Fakes()

    fakes.run()

    assert fakes.changes == ["delete run1", "upgrade"]
    assert fakes.told == ["MPIJob run1: its pods save and end", "notes"]
    assert fakes.looks < 0


@pytest.mark.parametrize(
    ("has_made", "changes"),
    [
        pytest.param(True, ["delete run1", "upgrade", "delete run1", "rollback"], id="revision-made"),
        pytest.param(False, ["delete run1", "upgrade", "rollback"], id="no-revision-made"),
    ],
)
def test_job_that_was_ended_for_an_upgrade_that_fails_is_made_again(has_made: bool, changes: list[str]) -> None:
    fakes = Fakes(fails=True, has_made=has_made)

    with pytest.raises(HelmError) as failed:
        fakes.run()

    assert fakes.changes == changes
    assert failed.value.messages[1] == "run1: rolled back to revision 3"


@pytest.mark.parametrize(
    ("away", "told"),
    [
        pytest.param(1, "rolled back to revision 3", id="back-in-time"),
        pytest.param(
            2,
            "could not go back to revision 3: the API server is away; its job is deleted; "
            "try `helm rollback run1 3 --namespace team`",
            id="away",
        ),
    ],
)
def test_api_server_is_waited_for_before_an_ended_job_is_made_again(away: int, told: str) -> None:
    fakes = Fakes(fails=True, has_made=False, away=away)

    with pytest.raises(HelmError) as failed:
        fakes.run()

    assert failed.value.messages[1] == f"run1: {told}"


def test_signal_while_the_job_ends_has_it_made_again_once_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = Fakes(has_made=False)
    interrupts = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr(ending, "time", interrupts)

    with pytest.raises(StoppedError):
        fakes.run()

    assert fakes.changes == ["delete run1", "rollback"]
    assert fakes.looks < 0


def test_job_is_waited_for_while_the_api_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = Fakes(looks=4)
    seen = fakes.workload

    def away(*_: object) -> kube.Workload | None:
        if (found := seen()) and fakes.looks in (1, 2):
            raise UnreachableError("the API server is shutting down")
        return found

    monkeypatch.setattr(fakes, "workload", away)

    fakes.run()

    assert fakes.changes == ["delete run1", "upgrade"]


@pytest.mark.parametrize(
    ("is_away_at", "words"),
    [
        pytest.param(
            "workload", r"Job run1-workers did not end in -1 s: the API server is away; see its pods ", id="wait"
        ),
        pytest.param("delete", r"^the API server is away$", id="second-delete"),
    ],
)
def test_job_that_is_deleted_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch, is_away_at: str, words: str) -> None:
    fakes = Fakes(looks=10)
    delete = fakes.delete_workload
    monkeypatch.setattr(ending, "SECONDS", -1)

    def away(*_: object) -> kube.Workload:
        raise UnreachableError("the API server is away")

    def delete_or_away(resource: Resource, namespace: str) -> str:
        return str(away()) if fakes.changes else delete(resource, namespace)

    if is_away_at == "workload":
        monkeypatch.setattr(fakes, "workload", away)
    else:
        monkeypatch.setattr(fakes, "delete_workload", delete_or_away)

    with pytest.raises(EndError) as failed:
        fakes.run([JOB, Resource("batch/v1", "Job", "run1-workers")])

    assert re.search(words, failed.value.messages[0])
    assert failed.value.messages[-1].startswith(
        "run1: its job is deleted; once its pods are gone, `helm rollback run1 3"
    )


def test_job_that_does_not_end_is_reported_as_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = Fakes(looks=10)
    monkeypatch.setattr(ending, "SECONDS", -1)

    with pytest.raises(EndError) as failed:
        fakes.run()

    assert fakes.changes == ["delete run1"]
    assert failed.value.messages[0].startswith("run1: MPIJob run1 did not end in -1 s: a pod does not end, perhaps")
    back = "`helm rollback run1 3 --namespace team` restores revision 3"
    assert failed.value.messages[1:] == (f"run1: its job is deleted; once its pods are gone, {back}",)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"mpiReplicaSpecs": {"Worker": {}, "Launcher": "POD"}}, id="operators"),
        pytest.param("POD", id="plain"),
    ],
)
def test_pods_have_their_grace_period_to_end(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: Any
) -> None:
    pod = {"template": {"spec": {"terminationGracePeriodSeconds": 3600}}}
    text = json.dumps({"metadata": {"name": "run1", "uid": "1"}, "spec": spec}).replace('"POD"', json.dumps(pod))
    cluster = connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))
    monkeypatch.setattr(cluster, "delete_workload", lambda *_: "1")
    monkeypatch.setattr(cluster, "workload", lambda *_: msgspec.json.decode(text, type=kube.Workload))
    clock = itertools.count(0, 300)
    monkeypatch.setattr(ending, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=time.sleep))

    with pytest.raises(EndError, match=r"^run1: MPIJob run1 did not end in 3660 s: a pod does not end"):
        ending.end(cluster, [JOB], "team", "run1", print)

    assert 3660 < next(clock) < 4500


def test_deletion_waits_for_the_pods_and_is_of_this_very_job(api: FakeApi, tmp_path: Path) -> None:
    path = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/run1"
    api.answers[path] = {"metadata": {"name": "run1", "uid": "1234"}}
    cluster = connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))

    ending.end(cluster, [JOB], "team", "run1", print)

    assert api.requests == [f"GET {path}", f"DELETE {path}", f"GET {path}"]
    assert cluster.delete_workload(JOB, "team") is None


def test_job_that_may_not_be_deleted_is_reported(api: FakeApi, tmp_path: Path) -> None:
    path = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/run1"
    api.answers[path] = {"metadata": {"name": "run1", "uid": "1234"}}
    api.troubles[path] = [200, 403]
    cluster = connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))

    with pytest.raises(ForbiddenError, match=r"^you have no permission to delete MPIJob run1; ask for a role"):
        ending.end(cluster, [JOB], "team", "run1", print)


def _planned(old: list[Object], new: list[Object]) -> tuple[Plan, Before]:
    before, after = yaml_writer.dump(*old), yaml_writer.dump(*new)
    was = Before(3, before, from_manifest(before, "run1"), {}, None, True, "--namespace team")
    return plan("run1", was, Next(after, from_manifest(after, "run1"), {})), was


def _of(jobs: list[Object], content: str, **labels: str) -> list[Object]:
    return [
        {**job, "metadata": {**job["metadata"], "annotations": {"distrain/content": content}, "labels": labels}}
        for job in jobs
    ]


def test_job_of_another_content_is_ended_first() -> None:
    planned, before = _planned(_of(plain(workers=2), "a"), _of(plain(workers=3), "b"))

    assert planned.replaces
    assert [resource.name for resource in planned.ends] == [resource.name for resource in before.job.resources]
    assert len(planned.ends) > 1


def test_job_of_the_same_content_is_not_ended() -> None:
    planned, _ = _planned(_of([mpi_job(workers=2)], "a"), _of([mpi_job(workers=3)], "a"))

    assert (planned.resizes, planned.replaces, planned.ends) == (True, False, [])


def test_job_that_helm_replaces_by_one_of_another_name_is_left_to_helm() -> None:
    # Older charts included the content hash in the job's name.
    old = mpi_job()
    old["metadata"] = {**old["metadata"], "name": "run1-12345678"}
    planned, _ = _planned([old], _of([mpi_job()], "a"))

    assert (planned.replaces, planned.ends) == (True, [])


def test_job_of_a_queue_is_queued_again_when_it_is_replaced() -> None:
    queued = {"kueue.x-k8s.io/queue-name": "team-a"}
    replaced, before = _planned(_of([mpi_job()], "a", **queued), _of([mpi_job(workers=3)], "b", **queued))
    live, _ = _planned(_of([mpi_job()], "a", **queued), _of([mpi_job()], "a", more="y", **queued))

    line = "  queue     team-a: Kueue queues the new job anew; nothing trains until it is admitted"
    assert line in lines(replaced, before, has_trainer=True)
    assert line not in lines(live, before, has_trainer=True)
