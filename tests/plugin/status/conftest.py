"""Define the fixtures of the tests of `status`."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path

import pytest

from distrain.status import follow
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Outcome, Run, called
from tests.plugin.status.runs import MPI_JOBS, NAMESPACE, serve


@pytest.fixture
def status(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `distrain status` with these arguments against the fake API."""
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    # A request gets at least 2 s, even after the time of --timeout. On a busy machine, an answer may take longer.
    monkeypatch.setattr("distrain.apiserver.connection.LEAST_SECONDS", 30.0)
    serve(api)

    def run(*arguments: str) -> Outcome:
        return called(capsys, "status", *arguments)

    return run


@pytest.fixture
def watched(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Callable[[Object, str], None]:
    """Return a function that sends an object's change to the watch of its kind.

    Without a watch, the change waits for the next one.
    """
    monkeypatch.setattr(follow, "SOONEST", 0.01)
    monkeypatch.setattr(follow, "LATEST", 0.05)
    api.watches = {path: queue.Queue() for path in (f"{NAMESPACE}/pods", MPI_JOBS)}

    def change(item: Object, kind: str) -> None:
        path = MPI_JOBS if item.get("kind") == "MPIJob" else f"{NAMESPACE}/pods"
        # Without a resourceVersion, the plugin would list the objects again.
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": "2"}}
        api.watches[path].put({"type": kind, "object": item})

    return change
