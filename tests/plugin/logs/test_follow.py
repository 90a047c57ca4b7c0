"""Test that `logs --follow` loses no line and prints no line twice, after restarts and with new pods and jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from distrain import console
from distrain.logs import follow, pool
from lab.waiting import wait_until
from tests.plugin.fake_api import FakeApi
from tests.plugin.logs.conftest import Step
from tests.plugin.logs.kubelet import Kubelet
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import MPI, NAMESPACE, PYTORCH, live, pod, serve

DONE = live({**MPI, "status": {}}, "Succeeded")
LAUNCHER = pod("launcher")
UP = [LAUNCHER, pod("worker", 0), pod("worker", 1)]
Change = Callable[[str, Object], None]


def named(name: str, found: Object, **metadata: Any) -> Object:
    """Return a copy of a pod or job under another name."""
    return {**found, "metadata": {**found["metadata"], "name": name, "uid": f"uid-{name}", **metadata}}


def ended(found: Object, phase: str = "Succeeded", exit_code: int = 0) -> Object:
    role = found["spec"]["containers"][0]["name"]
    status = {"name": role, "state": {"terminated": {"exitCode": exit_code}}}
    return {**found, "status": {"phase": phase, "containerStatuses": [status]}}


@pytest.fixture
def finish(kubelet: Kubelet, change: Change) -> Callable[[], None]:
    """Return a function that ends the launcher and marks the run's job as finished."""

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
    launcher: Kubelet, logs: Run, steps: list[Step], finish: Callable[[], None]
) -> None:
    steps += [("a", lambda: launcher.write("run1-launcher", "b")), ("b", finish)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out, shown.err) == (0, "a\nb\n", "")


def test_container_that_restarts_is_followed(
    launcher: Kubelet, logs: Run, steps: list[Step], finish: Callable[[], None]
) -> None:
    def restart() -> None:
        launcher.write("run1-launcher", "last words")
        launcher.restart("run1-launcher")
        launcher.write("run1-launcher", "again")

    steps += [("a\n", restart), ("again\n", finish)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out) == (0, "a\nlast words\nagain\n")


def test_job_that_replaces_the_job_is_followed_after_the_last_line_of_the_old_one(
    launcher: Kubelet, logs: Run, change: Change, steps: list[Step]
) -> None:
    later = "2026-01-01T00:10:00Z"
    new_job = named("run1-99999999", MPI, creationTimestamp=later)
    new_pod = named("run1-99999999-launcher", LAUNCHER, creationTimestamp=later)

    def replace() -> None:
        launcher.start("run1-99999999-launcher")
        launcher.write("run1-99999999-launcher", "new")
        change("ADDED", new_job)
        change("ADDED", new_pod)
        change("MODIFIED", {**MPI, "metadata": {**MPI["metadata"], "deletionTimestamp": later}})
        launcher.write("run1-launcher", "saved")
        launcher.end("run1-launcher")
        change("DELETED", LAUNCHER)
        change("DELETED", MPI)

    def end() -> None:
        launcher.end("run1-99999999-launcher")
        change("MODIFIED", ended(new_pod))
        change("MODIFIED", named("run1-99999999", DONE, creationTimestamp=later))

    steps += [("a\n", replace), ("new\n", end)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out, shown.err) == (0, "a\nsaved\nnew\n", "")


def test_api_server_that_is_away_for_a_while_loses_no_line(
    launcher: Kubelet, logs: Run, steps: list[Step], finish: Callable[[], None]
) -> None:
    def break_off() -> None:
        wait_until("the log is followed", lambda: launcher.readings[-1][1].get("follow") == "true", pause=0.01)
        number = len(launcher.readings)
        launcher.cut()
        wait_until("a request that is refused", lambda: len(launcher.readings) > number, pause=0.01)
        launcher.write("run1-launcher", "b", "b", "c")
        launcher.mend()

    steps += [("a\n", break_off), ("c\n", finish)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out) == (0, "a\nb\nb\nc\n")


@pytest.mark.parametrize("flags", [["-f"], ["-f", "--all"]])
def test_job_that_is_away_before_another_one_replaces_it_is_waited_for(
    launcher: Kubelet, logs: Run, change: Change, steps: list[Step], monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    later = "2026-01-01T00:10:00Z"
    new_job, new_pod = (
        named(name, each, creationTimestamp=later)
        for name, each in (("run1-99999999", MPI), ("run1-99999999-launcher", LAUNCHER))
    )
    say = console.say

    def remove() -> None:
        launcher.end("run1-launcher")
        change("DELETED", MPI)
        for each in UP:
            change("DELETED", each)

    def replace(line: str) -> None:
        say(line)
        if "its job is gone" in line:
            launcher.start("run1-99999999-launcher")
            launcher.write("run1-99999999-launcher", "new")
            change("ADDED", new_job)
            change("ADDED", new_pod)

    def end() -> None:
        launcher.end("run1-99999999-launcher")
        change("MODIFIED", ended(new_pod))
        change("MODIFIED", named("run1-99999999", DONE, creationTimestamp=later))

    monkeypatch.setattr(console, "say", replace)
    steps += [("a\n", remove), ("new\n", end)]

    shown = logs("run1", *flags)

    title = "launcher | " * ("--all" in flags)
    assert (shown.code, shown.out) == (0, f"{title}a\n{title}new\n")
    assert shown.err == "distrain: run1: its job is gone; waiting for the job that replaces it\n"


def test_run_that_is_removed_is_followed_to_its_last_line(
    api: FakeApi, launcher: Kubelet, logs: Run, change: Change, steps: list[Step]
) -> None:
    api.answers[f"{NAMESPACE}/configmaps"] = []

    def remove() -> None:
        launcher.write("run1-launcher", "last words")
        launcher.end("run1-launcher")
        change("DELETED", MPI)
        change("DELETED", LAUNCHER)

    steps += [("a\n", remove)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out) == (4, "a\nlast words\n")
    assert shown.err == "distrain: run1: the run is gone: someone removed it\n"


def test_logs_of_all_pods_that_break_off_are_told_in_one_line(
    launcher: Kubelet,
    logs: Run,
    change: Change,
    steps: list[Step],
    finish: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    say = console.say

    def tell(line: str) -> None:
        say(line)
        # The thread of one pod waits here. Wait until the requests of the two other pods have failed often enough for a
        # line, too.
        before = len(launcher.readings)

        def have_failed() -> bool:
            tries = Counter(name for name, _ in launcher.readings[before:])
            return sum(number > pool.WORTH_TELLING for number in tries.values()) == 2

        wait_until("the requests of the other pods", have_failed, pause=0.01)
        launcher.mend()
        launcher.write("run1-launcher", "b")

    def end() -> None:
        for number in range(2):
            launcher.end(f"run1-worker-{number}")
            change("MODIFIED", ended(pod("worker", number)))
        finish()

    monkeypatch.setattr(console, "say", tell)
    for number in range(2):
        launcher.start(f"run1-worker-{number}")
    steps += [("launcher | a\n", launcher.cut), ("launcher | b\n", end)]

    shown = logs("run1", "-f", "--all")

    [line] = shown.err.splitlines()
    assert (shown.code, line.endswith("; trying on")) == (0, True)


def test_run_without_a_pod_is_waited_for(
    api: FakeApi, kubelet: Kubelet, logs: Run, change: Change, steps: list[Step], finish: Callable[[], None]
) -> None:
    serve(api, MPI, pods=[pod("launcher", phase="Pending")])
    kubelet.start("run1-launcher")
    kubelet.write("run1-launcher", "a")
    change("MODIFIED", LAUNCHER)
    steps += [("a\n", finish)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out) == (0, "a\n")
    assert shown.err == "distrain: run1: no pod has started yet; waiting\n"


def test_all_pods_are_followed_with_those_that_come_later(
    launcher: Kubelet, logs: Run, change: Change, steps: list[Step], finish: Callable[[], None]
) -> None:
    for number in range(2):
        launcher.start(f"run1-worker-{number}")
        launcher.write(f"run1-worker-{number}", f"w{number}")

    def grow() -> None:
        launcher.start("run1-worker-2")
        launcher.write("run1-worker-2", "w2")
        change("ADDED", pod("worker", 2))

    def end() -> None:
        for number in range(3):
            launcher.end(f"run1-worker-{number}")
            change("MODIFIED", ended(pod("worker", number)))
        finish()

    steps += [("launcher | a\n", grow), ("w0\n", lambda: None), ("w1\n", lambda: None), ("worker-2 | w2\n", end)]

    shown = logs("run1", "-f", "--all")

    assert shown.code == 0
    assert sorted(shown.out.splitlines()) == ["launcher | a", "worker-0 | w0", "worker-1 | w1", "worker-2 | w2"]


def test_rank_0_that_moves_to_another_worker_is_followed_there(
    api: FakeApi, kubelet: Kubelet, logs: Run, change: Change, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "SILENT", 0.05)
    workers = [pod("worker", 0), pod("worker", 1)]
    serve(api, PYTORCH, pods=workers)
    for number in range(2):
        kubelet.start(f"run1-worker-{number}")
        kubelet.write(f"run1-worker-{number}", f"start {number}", gap=5)
    kubelet.write("run1-worker-0", 'distrain-progress: {"step": 1, "unix_seconds": 1}', gap=5)

    def move() -> None:
        kubelet.write("run1-worker-1", "resumed", 'distrain-progress: {"step": 2, "unix_seconds": 2}')

    def finish() -> None:
        for number, worker in enumerate(workers):
            kubelet.end(f"run1-worker-{number}")
            change("MODIFIED", ended(worker))
        change("MODIFIED", live({**PYTORCH, "status": {}}, "Succeeded"))

    steps += [('"step": 1', move), ('"step": 2', finish)]

    shown = logs("run1", "-f")

    assert [line.partition(",")[0] for line in shown.out.splitlines()] == [
        "start 0",
        'distrain-progress: {"step": 1',
        "resumed",
        'distrain-progress: {"step": 2',
    ]


def test_more_pods_than_connections_are_read_in_turn(
    api: FakeApi, kubelet: Kubelet, logs: Run, change: Change, steps: list[Step]
) -> None:
    workers = [pod("worker", number) for number in range(3 * pool.MOST)]
    serve(api, PYTORCH, pods=workers)
    names = [worker["metadata"]["name"] for worker in workers]
    for name in names:
        kubelet.start(name)
        kubelet.write(name, "a", "b")

    def write() -> None:
        for name in names:
            kubelet.write(name, "c")

    def finish() -> None:
        for name, worker in zip(names, workers, strict=True):
            kubelet.end(name)
            change("MODIFIED", ended(worker))
        change("MODIFIED", live({**PYTORCH, "status": {}}, "Succeeded"))

    steps += [("worker-47 | b\n", write), ("worker-5 | c\n", finish)]

    shown = logs("run1", "-f", "--all")

    assert shown.code == 0
    assert kubelet.most_open <= pool.MOST
    for number in range(len(workers)):
        own = [line for line in shown.out.splitlines() if line.startswith(f"worker-{number} |")]
        assert own == [f"worker-{number} | {words}" for words in "abc"]


def test_logs_that_may_not_be_read_end_it_with_the_right_that_is_missing(
    api: FakeApi, launcher: Kubelet, logs: Run, change: Change
) -> None:
    api.stream = lambda path, query: 403 if path.endswith("/log") else None

    shown = logs("run1", "-f")

    assert shown.code == 3
    assert shown.err.startswith("distrain: the log of run1-launcher cannot be read: ")
    assert len(shown.err.splitlines()) == 1


def test_pod_whose_log_may_not_be_read_is_told_and_the_others_are_followed(
    api: FakeApi, launcher: Kubelet, logs: Run, change: Change, steps: list[Step], finish: Callable[[], None]
) -> None:
    for name in ("run1-worker-0", "run1-worker-1"):
        launcher.start(name)
    answer = api.stream
    api.stream = lambda path, query: 403 if "worker-0" in path and path.endswith("/log") else answer(path, query)

    def end() -> None:
        launcher.end("run1-worker-1")
        for number in (0, 1):
            change("MODIFIED", ended(UP[1 + number]))
        finish()

    steps += [("a", lambda: launcher.write("run1-worker-1", "b")), ("worker-1 | b", end)]

    shown = logs("run1", "-f", "--all")

    assert (shown.code, sorted(shown.out.splitlines())) == (0, ["launcher | a", "worker-1 | b"])
    [line] = shown.err.splitlines()
    assert line.startswith("distrain: the log of run1-worker-0 cannot be read: ")
    assert line.endswith("; going on with the other pods")


def test_ctrl_c_ends_with_130_and_without_words(
    launcher: Kubelet, logs: Run, change: Change, steps: list[Step]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    steps += [("a\n", interrupt)]

    shown = logs("run1", "-f")

    assert (shown.code, shown.out, shown.err) == (130, "a\n", "")
