"""Define the fixtures of the tests of `logs`."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distrain import cli, console
from distrain.logs import follow, once, pool
from tests.plugin.fake_api import FakeApi
from tests.plugin.logs.kubelet import Kubelet
from tests.plugin.objects import Object
from tests.plugin.program import Outcome, Run
from tests.plugin.status.runs import NAMESPACE, serve

# A step is a text and an action. The test takes the action as soon as the program has printed the text.
Step = tuple[str, Callable[[], object]]


@pytest.fixture
def kubelet(api: FakeApi) -> Kubelet:
    return Kubelet(api)


@pytest.fixture
def logs(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Return a function that runs `distrain logs` with these arguments against the fake API."""
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setattr(once, "PAUSE", 0.01)
    if f"{NAMESPACE}/pods" not in api.answers:
        serve(api)

    def run(*arguments: str) -> Outcome:
        code = cli.run(["logs", *arguments])
        printed = capfdbinary.readouterr()
        return Outcome(code, printed.out.decode(errors="surrogateescape"), printed.err.decode())

    return run


@pytest.fixture
def change(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Object], None]:
    """Return a function that sends the change of an object to the watches. The change is ADDED, MODIFIED or DELETED."""
    monkeypatch.setattr(follow, "SOONEST", 0.02)
    monkeypatch.setattr(pool, "PAUSE", 0.02)
    api.watches = {path: queue.Queue() for path in (f"{NAMESPACE}/pods", *JOBS.values())}

    def change(kind: str, item: Object) -> None:
        # Without a resourceVersion, the plugin would list the objects again.
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": "2"}}
        api.watches[JOBS.get(item.get("kind", ""), f"{NAMESPACE}/pods")].put({"type": kind, "object": item})

    return change


JOBS = {
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs",
}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Step]]:
    """Yield a list to which the test adds its steps.

    The steps are taken one after another. A step's action is taken when the program has printed the step's text.
    """
    waiting: list[Step] = []
    printed = bytearray()
    write = console.write

    def write_and_go_on(data: bytes) -> None:
        write(data)
        printed.extend(data)
        while waiting and waiting[0][0].encode() in printed:
            waiting.pop(0)[1]()

    monkeypatch.setattr(console, "write", write_and_go_on)
    yield waiting
    assert waiting == []
