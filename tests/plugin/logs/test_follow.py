"""Test `logs --follow` as a user runs it: over restarts, other pods and other jobs, without a line twice or lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.logs.conftest import Step
from tests.plugin.logs.kubelet import Kubelet
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import MPI, live, pod, serve

DONE = live({**MPI, "status": {}}, "Succeeded")
LAUNCHER = pod("launcher")
UP = [LAUNCHER, pod("worker", 0), pod("worker", 1)]
Change = Callable[[str, Object], None]


def named(name: str, found: Object, **metadata: Any) -> Object:
    """Return another pod or job of this form."""
    return {**found, "metadata": {**found["metadata"], "name": name, "uid": f"uid-{name}", **metadata}}


def ended(found: Object, phase: str = "Succeeded", exit_code: int = 0) -> Object:
    role = found["spec"]["containers"][0]["name"]
    status = {"name": role, "state": {"terminated": {"exitCode": exit_code}}}
    return {**found, "status": {"phase": phase, "containerStatuses": [status]}}


@pytest.fixture
def finish(kubelet: Kubelet, change: Change) -> Callable[[], None]:
    """Return a function that ends the launcher and its run."""

    def finish() -> None:
        kubelet.end("run1-launcher")
        change("MODIFIED", ended(LAUNCHER))
        change("MODIFIED", DONE)

    return finish


@pytest.fixture
def launcher(api: FakeApi, kubelet: Kubelet) -> Kubelet:
    serve(api, MPI, pods=UP)
    kubelet.start("run1-launcher")
    kubelet.write("run1-launcher", "a")
    return kubelet


def test_lines_are_printed_as_they_come_until_the_run_has_ended(
    launcher: Kubelet, logs: Run, api: FakeApi, steps: list[Step], finish: Callable[[], None]
) -> None:
    serve(api, MPI, pods=UP)
    steps += [("a", lambda: launcher.write("run1-launcher", "b")), ("b", finish)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out, shown.err) == (0, "a\nb\n", "")
