"""Test `status` with --wait and --watch, against a fake API."""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from distrain import console
from distrain.status import follow
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import (
    MPI,
    NAMESPACE,
    UP,
    live,
    pod,
    rows_of,
    serve,
    step,
    unplaced,
)


@pytest.fixture
def watched(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Callable[[Object, str], None]:
    """Return a function that sends a change of an object to the watch of its kind, as soon as there is one."""
    monkeypatch.setattr(follow, "SOONEST", 0.01)
    monkeypatch.setattr(follow, "LATEST", 0.05)
    api.watches = {path: queue.Queue() for path in (f"{NAMESPACE}/pods", MPI_JOBS)}

    def change(item: Object, kind: str) -> None:
        path = MPI_JOBS if item.get("kind") == "MPIJob" else f"{NAMESPACE}/pods"
        api.watches[path].put({"type": kind, "object": item})

    return change


MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"
DONE, BROKEN = live({**MPI, "status": {}}, "Succeeded"), live({**MPI, "status": {}}, "Failed")


@pytest.mark.parametrize(
    ("goal", "change", "kind", "code"),
    [
        pytest.param("Succeeded", DONE, "MODIFIED", 0, id="succeeds"),
        pytest.param("Succeeded", BROKEN, "MODIFIED", 4, id="fails"),
        pytest.param("Running", pod("worker", 1), "MODIFIED", 0, id="runs"),
        pytest.param("Running", DONE, "MODIFIED", 0, id="runs-and-ends"),
        pytest.param("Running", BROKEN, "MODIFIED", 4, id="fails-before-it-runs"),
    ],
)
def test_wait_ends_with_the_goal_or_the_run(
    api: FakeApi,
    status: Run,
    watched: Callable[[Object, str], None],
    goal: str,
    change: Object,
    kind: str,
    code: int,
) -> None:
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), unplaced("worker", 1)])
    watched(change, kind)

    shown = status("run1", "--wait", f"--for={goal}")

    assert shown.code == code
    assert shown.err.startswith("distrain: run1: ")


def test_wait_ends_when_the_run_is_removed(api: FakeApi, status: Run, watched: Callable[[Object, str], None]) -> None:
    serve(api, MPI, pods=UP)

    def remove(path: str, code: int, body: bytes) -> tuple[int, bytes]:
        """Remove the run at the first look at its log: it was there."""
        if path.endswith("/log"):
            watched(MPI, "DELETED")
        return code, body

    api.spoil = remove

    shown = status("run1", "--wait")

    assert (shown.code, shown.err.splitlines()[-1]) == (4, "distrain: run1: the run is gone: someone removed it")


def test_wait_for_a_step_reads_the_log_again(api: FakeApi, status: Run, watched: Callable[[Object, str], None]) -> None:
    serve(api, MPI, pods=UP)
    logs = itertools.chain([step(90), step(99)], itertools.repeat(step(104)))
    api.spoil = lambda path, code, body: (200, next(logs).encode()) if path.endswith("/log") else (code, body)

    shown = status("run1", "--for=step=100")

    assert shown.code == 0
    assert [line.split("step ")[1].split()[0] for line in shown.err.splitlines()] == ["90", "99", "104"]
    assert rows_of(shown)["step"].startswith("104 of 1000")


def test_wait_for_a_step_that_a_run_has_ended_before_fails(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, DONE, pods=[pod("launcher", phase="Succeeded")], run1_launcher=step(50))

    shown = status("run1", "--for=step=100")

    assert shown.code == 4
    assert "has succeeded with step 50, before --for step=100" in shown.err


def test_wait_for_a_step_of_a_run_that_has_ended_without_a_known_step_fails(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, DONE, pods=[])

    shown = status("run1", "--for=step=100")

    assert shown.code == 4
    assert "has succeeded, and its last step is not known" in shown.err


def test_wait_ends_with_the_timeout_and_says_where_the_run_stands(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), unplaced("worker", 1)])

    shown = status("run1", "--wait", "--timeout", "100ms")

    *changes, last = shown.err.splitlines()
    assert shown.code == 4
    assert last.startswith("distrain: --timeout: Succeeded not reached in 0.1 s: run1: Pending, ")
    assert last.endswith("; give it more time")
    assert [line.partition(",")[0] for line in changes] == ["distrain: run1: Pending"]


def test_wait_that_reaches_its_goal_does_not_end_with_the_timeout(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, DONE, pods=[pod("launcher", phase="Succeeded")])

    assert status("run1", "--wait", "--timeout", "0").code == 0


def test_timeout_without_a_wait_is_refused(status: Run) -> None:
    for words in (["run1"], ["run1", "--watch"], []):
        shown = status(*words, "--timeout", "1h")

        assert (shown.code, shown.out) == (2, "")
        assert shown.err == "distrain: --timeout: limits --wait, which is missing; add --wait, or leave it out\n"


def test_wait_for_a_run_that_is_not_there_ends_at_once(status: Run) -> None:
    assert status("run1", "--wait").code == 2


def test_watch_tells_each_change_in_a_pipe_until_the_end(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), unplaced("worker", 1)])
    looks = iter([lambda: watched(pod("worker", 1), "MODIFIED"), lambda: watched(DONE, "MODIFIED")])
    printed = console.answer

    def answer(text: str) -> None:
        printed(text)
        next(looks, lambda: None)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "answer", answer)
        shown = status("run1", "--watch")

    assert shown.code == 0
    assert [line.partition(",")[0] for line in shown.out.splitlines()] == [
        "run1: Pending",
        "run1: Running",
        "run1: Succeeded",
    ]


def test_ctrl_c_ends_a_watch_with_130_and_without_words(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(api, MPI, pods=UP)
    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=_interrupt, monotonic=time.monotonic))

    shown = status("run1", "--watch")

    assert (shown.code, shown.err) == (130, "")


def _interrupt(_: float) -> None:
    raise KeyboardInterrupt


def test_short_silence_of_the_server_does_not_end_a_wait(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, MPI, pods=UP)
    logs = itertools.chain([step(90)], itertools.repeat(step(104)))
    api.spoil = lambda path, code, body: (200, next(logs).encode()) if path.endswith("/log") else (code, body)
    api.troubles[f"{NAMESPACE}/events"] = [200, 400]

    assert status("run1", "--for=step=100").code == 0
