"""Test `status --wait`, as a user runs it against a fake API."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest

from distrain import console
from distrain.answers import runs_view
from distrain.status import absence, follow
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import (
    BROKEN,
    BY_ARGO,
    DONE,
    LABELS,
    MPI,
    NAMESPACE,
    UP,
    interrupt,
    pod,
    rows_of,
    serve,
    step,
    unplaced,
)

CONFIG_MAPS = f"{NAMESPACE}/configmaps"


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


@pytest.fixture
def first_look(api: FakeApi) -> Callable[[Callable[[], object]], None]:
    """Return a function to which the test passes an action.

    This action is executed when the program reads the run's log for the first time.

    At that moment, the run already exists.
    """

    def act(then: Callable[[], object]) -> None:
        left = [then]

        def spoil(path: str, code: int, body: bytes) -> tuple[int, bytes]:
            if path.endswith("/log") and left:
                left.pop()()
            return code, body

        api.spoil = spoil

    return act


@pytest.mark.parametrize("left", [[], [{**BY_ARGO, "distrain/instance": "run2"}]], ids=["none", "another-run"])
def test_wait_ends_when_the_run_is_removed_with_its_configmaps(
    api: FakeApi,
    status: Run,
    watched: Callable[[Object, str], None],
    first_look: Callable[..., None],
    left: list[Object],
) -> None:
    serve(api, MPI, pods=UP)
    api.answers[CONFIG_MAPS] = [{"metadata": {"name": "run2-scripts", "labels": labels}} for labels in left]
    first_look(lambda: watched(MPI, "DELETED"))

    shown = status("run1", "--wait")

    assert (shown.code, shown.err.splitlines()[-1]) == (4, "distrain: run1: the run is gone: someone removed it")


@pytest.mark.parametrize(
    "config_maps",
    [
        pytest.param([{"metadata": {"name": "run1-scripts", "labels": LABELS}}], id="release-is-there"),
        pytest.param([{"metadata": {"name": "run1-scripts", "labels": BY_ARGO}}], id="release-of-argo-cd-is-there"),
        pytest.param(403, id="no-right"),
    ],
)
@pytest.mark.parametrize("flag", ["--wait", "--watch"])
def test_run_whose_job_is_replaced_is_not_gone(
    api: FakeApi,
    status: Run,
    watched: Callable[[Object, str], None],
    first_look: Callable[..., None],
    config_maps: list[Object] | int,
    flag: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(api, MPI, pods=UP)
    api.answers[CONFIG_MAPS] = config_maps
    first_look(lambda: watched(MPI, "DELETED"))
    say = console.say

    def replace(line: str) -> None:
        say(line)
        if "its job is gone" in line:
            new = {**DONE, "metadata": {**DONE["metadata"], "uid": "uid-new"}}
            watched(new, "ADDED")

    monkeypatch.setattr(console, "say", replace)

    shown = status("run1", flag)

    assert shown.code == 0
    assert "distrain: run1: its job is gone; waiting for the job that replaces it" in shown.err.splitlines()
    assert "Succeeded" in shown.out


def test_run_is_gone_if_no_job_has_replaced_it_in_time(
    api: FakeApi,
    status: Run,
    watched: Callable[[Object, str], None],
    first_look: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(absence, "SECONDS", 0.1)
    serve(api, MPI, pods=UP)
    first_look(lambda: watched(MPI, "DELETED"))

    shown = status("run1", "--wait")

    words = "the run is gone: someone removed its job, and no other job has replaced it in 0.1 s"
    assert (shown.code, shown.err.splitlines()[-1]) == (4, f"distrain: run1: {words}")


def test_run_is_not_gone_while_the_pod_of_a_hook_replaces_it(
    api: FakeApi,
    status: Run,
    watched: Callable[[Object, str], None],
    first_look: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(absence, "SECONDS", 0.1)
    hook = pod("replace")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "pre-upgrade,pre-rollback"}
    serve(api, MPI, pods=[*UP, hook])
    first_look(lambda: watched(MPI, "DELETED"))

    shown = status("run1", "--wait", "--timeout", "5s")

    words = "run1: its job is gone, and no other job has replaced it yet; give a longer --timeout"
    assert shown.code == 4
    assert shown.err.splitlines()[-1] == f"distrain: --timeout: the run has not reached Succeeded in 5 s: {words}"


@pytest.mark.parametrize("hook", ["pre-upgrade,pre-rollback", "test"])
def test_single_look_says_that_a_job_is_being_replaced(api: FakeApi, status: Run, hook: str) -> None:
    found = pod("replace")
    found["metadata"]["annotations"] = {"helm.sh/hook": hook}
    serve(api, pods=[found])

    shown = status("run1")

    assert shown.code == 2
    assert ("its job is gone, and an upgrade" in shown.err) == (hook != "test")


@pytest.mark.usefixtures("watched")
def test_wait_for_a_step_reads_the_log_again(api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_view, "STEP_SECONDS", 0.0)
    serve(api, MPI, pods=UP)
    first, second, last = (step(number, at=time.time()) for number in (90, 99, 104))
    logs = itertools.chain([first, second], itertools.repeat(last))
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
    assert "the run has already succeeded, at step 50, and did not reach --for step=100" in shown.err


def test_wait_for_a_step_of_a_run_that_has_ended_without_a_known_step_fails(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, DONE, pods=[])

    shown = status("run1", "--for=step=100")

    assert shown.code == 4
    assert "the run has succeeded, but its last step is unknown" in shown.err


def test_wait_ends_with_the_timeout_and_says_where_the_run_stands(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), unplaced("worker", 1)])

    shown = status("run1", "--wait", "--timeout", "100ms")

    *changes, last = shown.err.splitlines()
    assert shown.code == 4
    assert last.startswith("distrain: --timeout: the run has not reached Succeeded in 0.1 s: run1: Pending, ")
    assert last.endswith("; give a longer --timeout")
    assert [line.partition(",")[0] for line in changes] == ["distrain: run1: Pending"]


def test_wait_that_reaches_its_goal_does_not_end_with_the_timeout(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, DONE, pods=[pod("launcher", phase="Succeeded")])

    assert status("run1", "--wait", "--timeout", "0").code == 0


@pytest.mark.usefixtures("watched")
def test_wait_tells_steps_once_a_minute_and_other_changes_at_once(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(api, MPI, pods=UP)
    numbers = itertools.count(90)
    api.spoil = lambda path, code, body: (
        (200, step(next(numbers), at=time.time()).encode()) if path.endswith("/log") else (code, body)
    )

    shown = status("run1", "--for=step=100")

    assert shown.code == 0
    assert [line.partition(",")[0] for line in shown.err.splitlines()] == ["distrain: run1: Running"]


@pytest.fixture
def at_first_line(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return a function to which the test passes an action.

    This action is executed after the program's first line about the run.
    """
    say = console.say
    left: list[Callable[[], object]] = []

    def then(line: str) -> None:
        say(line)
        if left and line.startswith("run1: "):
            left.pop()()

    monkeypatch.setattr(console, "say", then)
    return left.append


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("trouble", ["cut", "silent"])
def test_wait_ends_in_time_while_the_server_is_away_and_says_so(
    api: FakeApi, status: Run, at_first_line: Callable[..., None], monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    # The real value, which the fixture `status` has changed.
    monkeypatch.setattr("distrain.apiserver.connection.LEAST_SECONDS", 2.0)

    def break_off() -> None:
        if trouble == "cut":
            api.troubles[f"{NAMESPACE}/events"] = [0] * 1000
        else:
            api.delays[f"{NAMESPACE}/events"] = 20

    serve(api, MPI, pods=UP)
    at_first_line(break_off)
    started = time.monotonic()

    shown = status("run1", "--for=step=9", "--timeout", "5s")

    assert time.monotonic() - started < 15
    last = shown.err.splitlines()[-1]
    assert shown.code == 4
    assert last.startswith(
        f"distrain: --timeout: the run has not reached step=9 in 5 s: the cluster at {api.url} cannot be reached: "
    )
    assert "; last state before that: run1: Running, 2 of 2 workers ready; launcher runs; " in last


@pytest.mark.usefixtures("watched")
def test_server_that_is_away_is_told_once_and_its_return_once(
    api: FakeApi, status: Run, at_first_line: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "WORTH_TELLING", 0.0)
    serve(api, MPI, pods=UP)
    logs = itertools.chain([step(90)] * 9, itertools.repeat(step(104)))
    api.spoil = lambda path, code, body: (200, next(logs).encode()) if path.endswith("/log") else (code, body)
    at_first_line(lambda: api.troubles.update({f"{NAMESPACE}/events": [0] * 15}))

    shown = status("run1", "--for=step=100")

    about = [line for line in shown.err.splitlines() if "run1: " not in line]
    assert shown.code == 0
    assert len(about) == 2
    assert about[0].startswith(f"distrain: the cluster at {api.url} cannot be reached: ")
    assert about[0].endswith("; trying on")
    assert about[1] == "distrain: the cluster answers again"


def test_timeout_without_a_wait_is_refused(status: Run) -> None:
    for words in (["run1"], ["run1", "--watch"], []):
        shown = status(*words, "--timeout", "1h")

        assert (shown.code, shown.out) == (2, "")
        assert shown.err == (
            "distrain: --timeout: limits only --wait, which was not given; add --wait, or leave out --timeout\n"
        )


def test_wait_for_a_run_that_is_not_there_ends_at_once(status: Run) -> None:
    assert status("run1", "--wait").code == 2


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("flags", [["--watch"], ["--for=step=104"]])
def test_what_may_not_be_read_is_told_once_while_a_run_is_followed(api: FakeApi, status: Run, flags: list[str]) -> None:
    serve(api, MPI, pods=UP)
    looks = itertools.chain([step(90)] * 3, [step(104)] * 3, itertools.repeat(step(105)))
    api.spoil = lambda path, code, body: (200, next(looks).encode()) if path.endswith("/log") else (code, body)
    api.answers[f"{NAMESPACE}/events"] = 403

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "answer", lambda text: interrupt() if "step 105" in text else None)
        shown = status("run1", *flags)

    assert shown.code in (0, 130)
    assert shown.err.count("not read: events of namespace team cannot be read") == 1


def test_short_silence_of_the_server_does_not_end_a_wait(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, MPI, pods=UP)
    logs = itertools.chain([step(90)], itertools.repeat(step(104)))
    api.spoil = lambda path, code, body: (200, next(logs).encode()) if path.endswith("/log") else (code, body)
    api.troubles[f"{NAMESPACE}/events"] = [200, 400]

    assert status("run1", "--for=step=100").code == 0
