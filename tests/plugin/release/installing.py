"""Install a release with a fake Helm in a fake cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distrain import kube
from distrain.apiserver.target import Target
from distrain.errors import (
    DistrainError,
    HelmError,
)
from distrain.helm.program import Source
from distrain.helm.releases import Operation, Status
from distrain.release import install, transaction
from distrain.release.transaction import Interrupts, Release, Tools

RELEASE = Release("run1", Source(Path("chart"), ()), Target("config", "context", "team"))
OPERATION = Operation("abc")
MANIFEST = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: run1}
"""


class FakeHelm:
    """A fake Helm.

    The release exists once `install` has been called. `owner` identifies the operation that has created the release.
    """

    def __init__(
        self,
        *,
        fails: DistrainError | None = None,
        owner: str = "abc",
        uninstall_fails: bool = False,
        status: str | DistrainError = "deployed",
    ) -> None:
        self.fails, self.owner, self.uninstall_fails, self._status = fails, owner, uninstall_fails, status
        self.during: Callable[[], None] = lambda: None
        self.uninstalled: list[str] = []
        self.last: Status | None = Status("deployed", 1)

    def status(self, *_: Any) -> Status | None:
        return self.last

    def install(self, *_: Any) -> str:
        self.during()
        if self.fails:
            raise self.fails
        return "notes"

    def has_made(self, _: str, operation: Operation, __: Target) -> bool:
        return operation.name == self.owner

    def status_of(self, *_: Any) -> str:
        if isinstance(self._status, DistrainError):
            raise self._status
        return self._status

    def uninstall(self, name: str, _: Target, *, keeps_history: bool) -> None:
        if self.uninstall_fails:
            raise HelmError("no permission")
        self.uninstalled.append(f"{name}, history kept" if keeps_history else name)


class FakeCluster:
    """A fake cluster in which the release's namespace does not exist.

    As soon as the namespace is created, it contains `objects`, as if another user had created them. `owner` is the
    release for which Helm has created them.
    """

    target = RELEASE.target

    def __init__(self, *objects: str, owner: str = "") -> None:
        self.objects, self._owner = objects, owner
        self.deleted: list[str] = []

    def version(self) -> str:
        return "v1.34.4"

    def create_namespace(self, _: str, __: dict[str, str]) -> str:
        return "uid"

    def named(self, _: str, __: str, plural: str) -> list[kube.Named]:
        names = [name.partition("/")[2] for name in self.objects if name.startswith(f"{plural}/")]
        return [kube.Named(kube.Metadata(name=name)) for name in names]

    def read_optional(self, path: str, *_: Any) -> kube.Named | None:
        name = path.rpartition("/")[2]
        found = kube.Metadata(name=name, annotations={"meta.helm.sh/release-name": self._owner})
        return kube.Named(found) if path.endswith(self.objects) else None

    def delete_namespace(self, name: str, uid: str) -> None:
        self.deleted.append(f"{name} {uid}")


def install_with(
    helm: Any,
    cluster: Any = None,
    start: Callable[[], None] | None = None,
    create_namespace: bool = False,
    told: list[str] | None = None,
    is_atomic: bool = False,
    operation: Operation = OPERATION,
) -> list[str]:
    """Install the release with the fake Helm and the fake cluster.

    Return the messages. The function `start` replaces the wait for the job's start.
    """
    told = [] if told is None else told
    fake: Any = cluster or FakeCluster()
    tools = Tools(helm, fake, Interrupts(), told.append, told.append, is_atomic)
    followed: Any = start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "until_started", lambda _, follow, __: follow())
        install.install(tools, RELEASE, operation, MANIFEST, create_namespace=create_namespace, followed=followed)
    return told


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def send_signal(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)
