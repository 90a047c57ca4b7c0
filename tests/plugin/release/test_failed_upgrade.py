"""Test with a fake Helm what stays and what is rolled back if an upgrade fails or its job does not start."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from distrain import kube
from distrain.apiserver.target import Target
from distrain.errors import (
    DistrainError,
    GoneError,
    HelmError,
    LateError,
    NameInUseError,
    RecreatedError,
    StartError,
    StoppedError,
    UnreachableError,
)
from distrain.helm.program import Source
from distrain.helm.releases import Operation, Status
from distrain.kube.resource import Resource
from distrain.release import transaction, upgrade
from distrain.release.plan import Plan
from distrain.release.transaction import Interrupts, Release, Tools

pytestmark = pytest.mark.usefixtures("signals")

RELEASE = Release("run1", Source(Path("chart"), ()), Target("config", "context", "team"))
JOB = Resource("kubeflow.org/v2beta1", "MPIJob", "run1-1234abcd")
PLANNED = Plan("run1", 3, {}, [])


MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: run1-trainer}
---
apiVersion: v1
kind: Pod
metadata: {name: run1-check, annotations: {helm.sh/hook: pre-install}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: run1-data, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: run1}
"""
KEPT = "/api/v1/namespaces/team/persistentvolumeclaims/run1-data"
OBJECTS = ["/api/v1/namespaces/team/configmaps/run1-trainer", "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/run1"]
NEWER = Status("deployed", 5)
UNINSTALLED = "run1: someone uninstalled it during the upgrade"


class Objects:
    """A fake cluster with these objects, by path, which Helm has created for the release `owner`."""

    def __init__(self, *found: str, owner: str = "run1", deletion_timestamp: str | None = None) -> None:
        self._found, self._deletion_timestamp = found, deletion_timestamp
        self._annotations = {"meta.helm.sh/release-name": owner}

    def read_optional(self, path: str, *_: Any) -> kube.Named | None:
        if path not in self._found:
            return None
        more: Any = {"annotations": self._annotations, "deletion_timestamp": self._deletion_timestamp}
        return kube.Named(kube.Metadata(name=path.rpartition("/")[2], **more))


class FakeHelm:
    """A fake Helm. `upgrade` creates a revision or fails. Before `upgrade` returns, it calls `during`.

    `last` is the release's last revision after that, or None if there is no release.
    """

    def __init__(
        self,
        *,
        fails: DistrainError | None = None,
        has_made: bool = True,
        last: Status | DistrainError | None = NEWER,
    ) -> None:
        self.fails, self._has_made, self._last = fails, has_made, last
        self.during: Callable[[], None] = lambda: None
        self.rollbacks: list[int] = []

    def status(self, *_: Any) -> Status | None:
        if isinstance(self._last, DistrainError):
            raise self._last
        return Status("deployed", 4) if self._has_made else self._last

    def upgrade(self, *_: Any) -> str:
        self.during()
        if self.fails:
            raise self.fails
        return "notes"

    def has_made(self, *_: Any) -> bool:
        return self._has_made

    def rollback(self, _: str, number: int, *__: Any) -> None:
        self.rollbacks.append(number)


def _upgrade(
    helm: Any,
    start: Callable[[], None] | None = None,
    *,
    is_atomic: bool = False,
    refresh: Callable[[], None] = lambda: None,
    cluster: Any = None,
    planned: Plan = PLANNED,
) -> list[str]:
    """Upgrade the release with the fake Helm.

    Return the messages. `start` is called instead of waiting for the job's start.
    """
    told: list[str] = []
    tools = Tools(helm, cluster, Interrupts(), told.append, told.append, is_atomic)
    followed: Any = start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "until_started", lambda _, follow, __: follow())
        upgrade.upgrade(tools, RELEASE, Operation("abc"), planned, MANIFEST, followed=followed, refresh=refresh)
    return told


def test_launcher_learns_its_new_size_before_the_wait_for_a_step_of_that_size() -> None:
    done: list[str] = []

    _upgrade(FakeHelm(), lambda: done.append("waited"), refresh=lambda: done.append("refreshed"))

    assert done == ["refreshed", "waited"]


@pytest.mark.parametrize(
    ("has_made", "told"),
    [
        pytest.param(True, ("run1: rolled back to revision 3",), id="half-done"),
        pytest.param(False, ("nothing was changed",), id="not-begun"),
    ],
)
def test_failed_upgrade_goes_back(has_made: bool, told: tuple[str, ...]) -> None:
    helm = FakeHelm(fails=HelmError("forbidden"), has_made=has_made, last=Status("deployed", 3))

    with pytest.raises(HelmError) as failed:
        _upgrade(helm)

    assert failed.value.messages == ("run1: Helm could not upgrade it: forbidden", *told)
    assert helm.rollbacks == ([3] if has_made else [])


def _cannot_start() -> None:
    raise StartError("no image")


def test_job_that_does_not_start_stays_and_the_message_tells_how_to_mend_it() -> None:
    helm = FakeHelm()

    with pytest.raises(StartError) as failed:
        _upgrade(helm, _cannot_start)

    mend = "run1: stays upgraded; mend it with `helm distrain upgrade run1 --namespace team -f ...`"
    back = "or go back to revision 3 with `helm rollback run1 3 --namespace team`"
    assert failed.value.messages == ("no image", f"{mend}, {back}")
    assert helm.rollbacks == []


def test_job_that_is_late_stays_and_the_message_tells_how_to_watch_it() -> None:
    def is_late() -> None:
        raise LateError("no step in 60 s")

    with pytest.raises(StartError) as failed:
        _upgrade(FakeHelm(), is_late)

    watch = "run1: stays upgraded and may still start; watch it with `kubectl --namespace team get pods --watch "
    back = "--selector app.kubernetes.io/instance=run1`, or go back to revision 3 with `helm rollback run1 3 "
    assert failed.value.messages == ("no step in 60 s", f"{watch}{back}--namespace team`")


def test_job_that_does_not_start_is_rolled_back_with_atomic() -> None:
    helm = FakeHelm()

    with pytest.raises(StartError) as failed:
        _upgrade(helm, _cannot_start, is_atomic=True)

    assert failed.value.messages == ("no image", "run1: rolled back to revision 3")


@pytest.mark.parametrize("error", [GoneError("gone"), KeyboardInterrupt()])
def test_newer_revision_of_another_user_stays(error: BaseException) -> None:
    helm = FakeHelm()

    def start() -> None:
        helm._has_made = False
        raise error

    with pytest.raises((GoneError, StoppedError)) as refused:
        _upgrade(helm, start, is_atomic=True)

    newer = (
        "run1: someone else has created revision 5 in the meantime, so that revision stays; `helm history run1 "
        "--namespace team`"
    )
    assert isinstance(refused.value, DistrainError)
    assert refused.value.messages[1:] == (f"{newer} shows it",)
    assert helm.rollbacks == []


def test_job_that_cannot_be_followed_stays_at_its_new_revision() -> None:
    helm = FakeHelm()

    def start() -> None:
        raise UnreachableError("silent")

    with pytest.raises(UnreachableError) as unknown:
        _upgrade(helm, start)

    stays = "run1: is left as it is; `helm rollback run1 3 --namespace team` restores revision 3"
    assert unknown.value.messages == ("silent", stays)
    assert helm.rollbacks == []


def test_release_that_was_uninstalled_meanwhile_is_not_called_upgraded() -> None:
    helm = FakeHelm()

    def find_another_job() -> None:
        raise RecreatedError("someone uninstalled it")

    with pytest.raises(RecreatedError) as failed:
        _upgrade(helm, refresh=find_another_job)

    again = "run1: exists again, with a new job; `helm uninstall run1 --namespace team` removes it"
    assert failed.value.messages == ("someone uninstalled it", again)
    assert helm.rollbacks == []


def test_release_that_was_uninstalled_after_the_upgrade_is_not_rolled_back() -> None:
    helm = FakeHelm(last=None)

    def start() -> None:
        helm._has_made = False
        raise StartError("no pods")

    with pytest.raises(StartError) as failed:
        _upgrade(helm, start, is_atomic=True, cluster=Objects())

    assert failed.value.messages == ("no pods", "run1: is no longer installed: someone uninstalled it")
    assert helm.rollbacks == []


LEFT = (
    "left without a release: ConfigMap run1-trainer and MPIJob run1; `kubectl --namespace team delete "
    "configmaps/run1-trainer mpijobs.kubeflow.org/run1` deletes what is left"
)


@pytest.mark.parametrize("last", [None, Status("uninstalling", 4), Status("uninstalled", 4)], ids=str)
@pytest.mark.parametrize("has_made", [False, True])
@pytest.mark.parametrize(
    ("cluster", "left"),
    [
        pytest.param(Objects(*OBJECTS, KEPT), LEFT, id="job-and-more"),
        pytest.param(Objects(), "nothing of it is left", id="nothing"),
        pytest.param(Objects(*OBJECTS, owner="run2"), "nothing of it is left", id="of-another-release"),
        pytest.param(Objects(*OBJECTS, deletion_timestamp="2026-01-01T00:00:00Z"), "nothing of it is left", id="going"),
    ],
)
def test_upgrade_that_fails_because_the_release_was_uninstalled_tells_what_it_has_created(
    cluster: Objects, left: str, has_made: bool, last: Status | None
) -> None:
    helm = FakeHelm(fails=HelmError('secrets "sh.helm.release.v1.run1.v4" not found'), has_made=has_made, last=last)
    helm.status = lambda *_: last  # type: ignore[method-assign]

    with pytest.raises(HelmError) as failed:
        _upgrade(helm, cluster=cluster)

    assert failed.value.messages[1:] == (f"{UNINSTALLED}; {left}",)
    assert helm.rollbacks == []


def test_objects_that_cannot_be_read_after_an_uninstallation_are_not_called_gone() -> None:
    silent = Mock(read_optional=Mock(side_effect=UnreachableError("the server is silent")))

    with pytest.raises(HelmError) as failed:
        _upgrade(FakeHelm(fails=HelmError("not found"), has_made=False, last=None), cluster=silent)

    told = (
        "what is left of it cannot be read: the server is silent; `helm distrain doctor --namespace team` finds a job"
    )
    assert failed.value.messages[1:] == (f"{UNINSTALLED}; {told} that is left",)


@pytest.mark.parametrize("ends", [(), (JOB,)], ids=["live", "replaced"])
def test_upgrade_that_another_upgrade_has_overtaken_tells_its_revision_and_keeps_it(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[Resource, ...]
) -> None:
    monkeypatch.setattr(upgrade, "end", lambda *_: None)
    helm = FakeHelm(fails=NameInUseError("another upgrade finished first; try again"), has_made=False)

    with pytest.raises(NameInUseError) as failed:
        _upgrade(helm, planned=Plan("run1", 3, {}, [], ends=ends))

    newer = "run1: someone else has created revision 5 in the meantime, so that revision stays"
    first = "run1: Helm could not upgrade it: another upgrade finished first; try again"
    assert failed.value.messages == (first, f"{newer}; `helm history run1 --namespace team` shows it")
    assert helm.rollbacks == []


def test_failed_upgrade_whose_release_cannot_be_read_is_not_called_unchanged() -> None:
    helm = FakeHelm(fails=HelmError("lost"), last=HelmError("silent"))
    helm.has_made = Mock(side_effect=HelmError("silent"))  # type: ignore[method-assign]

    with pytest.raises(HelmError) as failed:
        _upgrade(helm)

    assert failed.value.messages[1].startswith("run1: could not go back to revision 3: silent; try `helm rollback ")


def test_signal_while_helm_upgrades_goes_back_after_it() -> None:
    helm = FakeHelm()
    helm.during = lambda: os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(StoppedError) as stopped:
        _upgrade(helm)

    assert stopped.value.messages == ("interrupted", "run1: rolled back to revision 3")
