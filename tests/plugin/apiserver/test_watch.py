"""Test that a watch keeps a list up to date and continues after any event that ends a watch request."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distrain import kube
from distrain.apiserver import watch
from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import choose
from distrain.apiserver.watch import Watch
from distrain.errors import ForbiddenError, UnreachableError
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object

PODS = "/api/v1/namespaces/team/pods"
Begin = Callable[[], tuple[Watch[kube.Pod], threading.Event]]


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(watch, "PAUSE", 0.01)
    api.watches[PODS] = queue.Queue()
    return connect(choose(kubeconfig=str(api.kubeconfig(tmp_path)), context=None, namespace=None))


def _pod(name: str, phase: str = "Running", version: str = "7") -> Object:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}, "status": {"phase": phase}}


@pytest.fixture
def begin(cluster: Cluster) -> Iterator[Begin]:
    """Return a function that begins a watch of the pods. It returns the watch, and the event that tells each change.

    Every watch is closed at the end of the test. Otherwise, its thread would send requests during later tests.
    """
    with contextlib.ExitStack() as ends:

        def begin() -> tuple[Watch[kube.Pod], threading.Event]:
            changed = threading.Event()
            found = cluster.watch(PODS, kube.Pod, "pods", changed, labelSelector="a=b")
            ends.callback(found.close)
            return found, changed

        yield begin


def _awaited(found: Watch[kube.Pod], changed: threading.Event) -> Iterator[list[str]]:
    """Wait for each change of the pods. Yield the name and phase of all pods after the change."""
    while True:
        assert changed.wait(180), "no change came"
        changed.clear()
        yield sorted(f"{pod.metadata.name} {pod.status.phase}" for pod in found.items())


def _until(found: Watch[kube.Pod], changed: threading.Event, pods: list[str]) -> None:
    assert any(seen == pods for seen in _awaited(found, changed))


def test_changes_reach_the_list(api: FakeApi, begin: Begin) -> None:
    api.answers[PODS] = [_pod("a", "Pending"), _pod("b")]
    found, changed = begin()

    assert sorted(pod.metadata.name for pod in found.items()) == ["a", "b"]

    for kind, pod in (("MODIFIED", _pod("a")), ("DELETED", _pod("b")), ("ADDED", _pod("c", "Pending"))):
        api.watches[PODS].put({"type": kind, "object": pod})
    _until(found, changed, ["a Running", "c Pending"])
    assert sum("watch=1" in request for request in api.requests) == 1


def test_watch_that_ends_goes_on_from_its_last_version(api: FakeApi, begin: Begin) -> None:
    api.answers[PODS] = []
    found, changed = begin()
    api.watches[PODS].put({"type": "ADDED", "object": _pod("a", version="8")})
    api.watches[PODS].put({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}})
    api.watches[PODS].put(None)
    api.watches[PODS].put({"type": "ADDED", "object": _pod("b", version="13")})

    _until(found, changed, ["a Running", "b Running"])

    watches = [request for request in api.requests if "watch=1" in request]
    assert [request.rpartition("resourceVersion=")[2] for request in watches] == ["1", "12"]
    assert all("labelSelector=a%3Db" in request for request in watches)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param({"type": "ERROR", "object": {"kind": "Status", "code": 410}}, id="version-is-gone"),
        pytest.param(b'{"type": "ADDED", "object": {"metad', id="line-is-cut"),
        pytest.param(410, id="status-gone"),
        pytest.param(403, id="watch-is-forbidden"),
        pytest.param(500, id="server-fails"),
    ],
)
def test_list_is_read_again_after_what_ends_a_watch(api: FakeApi, begin: Begin, end: Object | bytes | int) -> None:
    api.answers[PODS] = [_pod("a")]
    found, changed = begin()
    assert [pod.metadata.name for pod in found.items()] == ["a"]

    api.answers[PODS] = [_pod("b")]
    api.watches[PODS].put(end)
    api.watches[PODS].put(None)

    _until(found, changed, ["b Running"])


def test_list_that_is_forbidden_raises_its_error(api: FakeApi, begin: Begin) -> None:
    api.answers[PODS] = 403
    found, _ = begin()

    with pytest.raises(ForbiddenError, match="pods cannot be read"):
        found.items()


def test_server_that_never_answers_is_known_by_its_silence(api: FakeApi, begin: Begin) -> None:
    api.garbage = "<html>"
    found, _ = begin()

    assert found.items() == []
    _, error = found.silence()
    assert isinstance(error, UnreachableError)
    assert not found.has_answered
