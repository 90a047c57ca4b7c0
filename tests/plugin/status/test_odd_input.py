"""Test that odd logs, objects, servers and terminals lead to a clear answer, never to a traceback."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import pytest

from distrain import console
from distrain.progress.logs import LINES
from distrain.progress.steps import last_line
from distrain.status.figures import LONG_AGO, Figures, figures, timed
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, mpi_job
from tests.plugin.program import Run
from tests.plugin.status.runs import MPI, NAMESPACE, live, pod, serve, step, stuck, unplaced

NOW = 1767225600.0
LONG = "a" * 53
ROLES = (("launcher", 0), ("worker", 0), ("worker", 1))
UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]


def _figures(raw: str, now: float = NOW) -> Figures:
    return figures([timed(raw)], [], now)


def _line(text: str, at: str = "2026-01-01T00:00:00.5Z") -> str:
    return f"{at} {text}\n"


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        pytest.param(step(7) + '2026-01-01T00:00:01Z distrain-progress: {"step": 8, "st', 7, id="cut"),
        pytest.param(step(7) + _line('distrain-progress: {"step": 8, "of": {"a"}'), 7, id="cut-after-a-brace"),
        pytest.param(_line('distrain-progress: {"step": 7, "novel": {"a": [1]}, "version": 9}'), 7, id="newer"),
        pytest.param(_line('distrain-progress: {"step": "many"}'), None, id="step-is-no-number"),
        pytest.param(_line('distrain-progress: {"step": 7}\r'), 7, id="carriage-return"),
        pytest.param(step(7) + _line("x" * 10**6), 7, id="long-line"),
        pytest.param(_line("\ufffd\x00\x1b[2J") + step(7), 7, id="not-utf-8"),
        pytest.param(_line("distrain-progress: {}"), None, id="empty"),
        pytest.param("", None, id="no-log"),
        pytest.param('distrain-progress: {"step": 7}\n', 7, id="no-times"),
    ],
)
def test_last_whole_line_counts(log: str, shown: int | None) -> None:
    assert _figures(log).step == shown


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "null"])
def test_loss_that_is_no_number_is_not_known(word: str) -> None:
    found = _figures(_line(f'distrain-progress: {{"step": 7, "loss": {word}, "checkpoint": "NaN"}}'))

    assert (found.step, found.loss, found.checkpoint) == (7, None, "NaN")


@pytest.mark.parametrize(
    ("minutes", "age"),
    [pytest.param(5, 0, id="node-is-ahead"), pytest.param(-5, 300, id="node-is-behind"), pytest.param(0, 0, id="same")],
)
def test_clocks_that_differ_make_no_negative_age(minutes: int, age: int) -> None:
    shift = 60 * minutes
    there = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW + shift))
    saved = _line("checkpoint: saved /c/1 at step 5", there)

    found = _figures(saved + step(7, at=NOW + shift, eta_seconds=100), NOW)

    assert found.step_age_seconds == age
    assert found.checkpoint_age_seconds == age
    # If the last line looks too old, `status` does not compute the remaining time.
    assert found.eta_seconds == (None if age >= LONG_AGO else max(0, 100 - age))


def test_age_of_a_checkpoint_is_measured_by_the_nodes_clock_if_that_is_ahead() -> None:
    saved = _line("checkpoint: saved /c/1 at step 5", "2026-01-01T00:05:00Z")

    assert _figures(saved + step(7, at=NOW + 340), NOW).checkpoint_age_seconds == 40


SAVED_9 = _line("checkpoint: saved 1-90 at step 9 (90 samples), 0.8 s, next in 95 s", "2026-01-01T00:00:10Z")
RESUMED_5 = _line("resumed from 1-50: step 5, 50 samples, on 2 ranks (saved on 2)", "2026-01-01T00:00:10Z")
TOLD_5: dict[str, Any] = {"checkpoint": "1-50", "samples": 80, "checkpoint_samples": 50}


@pytest.mark.parametrize(
    ("log", "newest"),
    [
        pytest.param(step(8, **TOLD_5) + SAVED_9, ("1-90", 9, 30), id="saved-after-the-last-step"),
        pytest.param(SAVED_9 + step(10, checkpoint="1-90"), ("1-90", 9, 30), id="step-after-the-save"),
        pytest.param(step(8, **TOLD_5) + RESUMED_5, ("1-50", 5, None), id="resumed-from-an-unknown-age"),
        pytest.param(SAVED_9 + RESUMED_5.replace("1-50: step 5", "1-90: step 9"), None, id="no-step-line"),
        pytest.param(step(8, **TOLD_5), ("1-50", 5, None), id="step-line-alone"),
        pytest.param(step(8, checkpoint="/c/x"), ("/c/x", None, None), id="own-program"),
        pytest.param(step(8), (None, None, None), id="none"),
    ],
)
def test_name_step_and_age_are_those_of_the_same_checkpoint(log: str, newest: tuple[object, ...] | None) -> None:
    found = _figures(log, NOW + 40)

    assert (found.checkpoint, found.checkpoint_step, found.checkpoint_age_seconds) == (newest or (None, None, None))


@pytest.mark.parametrize(
    ("log", "told"),
    [
        pytest.param(step(8, at=NOW) + SAVED_9, (9, 30), id="saved-after-the-last-step"),
        pytest.param(step(9, at=NOW) + SAVED_9, (9, 40), id="saved-at-the-last-step"),
        pytest.param(SAVED_9 + step(1, at=NOW), (1, 40), id="begun-anew"),
        pytest.param(step(8, at=NOW) + RESUMED_5, (8, 40), id="resumed"),
    ],
)
def test_step_is_not_older_than_a_checkpoint_of_this_start(log: str, told: tuple[int, int]) -> None:
    found = _figures(log, NOW + 40)

    assert (found.step, found.step_age_seconds) == told


@pytest.mark.parametrize("seconds", [1e300, -1e300, -5.0])
def test_senseless_rest_of_the_time_is_not_shown(seconds: float) -> None:
    assert _figures(step(7, eta_seconds=seconds)).eta_seconds is None


def test_rescales_are_changes_of_the_number_of_ranks() -> None:
    log = step(1, world_size=2) + step(2, world_size=4) + step(3, world_size=4) + step(4, world_size=2)

    assert _figures(log).rescales == 2


def test_rescales_before_the_lines_that_were_read_are_not_known(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), pod("worker", 1)], run1_launcher=step(7) * LINES)

    assert _figures(step(7) * LINES).rescales is None
    assert "restarts  " not in status("run1").out


def test_line_of_another_program_is_no_progress() -> None:
    assert last_line('x distrain-progress: {"step": 1}\n') is None


def test_many_restarts_are_counted(api: FakeApi, status: Run) -> None:
    worker = pod("worker", 0)
    worker["status"]["containerStatuses"][0]["restartCount"] = 10_000
    serve(api, MPI, pods=[pod("launcher"), worker, pod("worker", 1)], run1_launcher=step(7))

    out = status("run1").out

    assert "restarts     10,000 restarts, 0 rescales" in out.splitlines()


def test_log_that_is_not_utf8_and_has_a_line_of_1_mb_is_read(api: FakeApi, status: Run) -> None:
    odd = b"2026-01-01T00:00:00Z \xff\xfe\x1b[2J\n2026-01-01T00:00:00Z " + b"x" * 10**6 + b"\n"
    serve(api, MPI, pods=UP, run1_launcher=odd + step(7).encode() + odd)

    shown = status("run1")

    assert (shown.code, shown.err) == (0, "")
    assert "step         7 of 1000" in shown.out


@pytest.mark.parametrize("width", [None, 80, 40, 1])
def test_control_characters_are_escaped_and_lines_fit(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch, width: int | None
) -> None:
    monkeypatch.setattr(console, "width", lambda: width)
    monkeypatch.setenv("NO_COLOR", "1")
    odd = "cannot \x1b]0;title\x07 \u202e start " + "word " * 300
    waiting = [stuck("launcher", reason="CreateContainerError", message=odd), *UP[1:]]
    serve(api, MPI, pods=waiting, run1_launcher=step(7, checkpoint="s3://\x1b[2J\n\u2028x"))

    out = status("run1").out

    assert "\\x1b]0;title\\x07 \\u202e" in out.replace("\n", " ").replace("           ", "") or width in (40, 1)
    assert all(each.isprintable() for each in out.splitlines())
    assert len(out.splitlines()) <= 23
    assert width is None or max(map(len, out.splitlines())) <= max(width, 30)


@pytest.mark.parametrize("arguments", [(), ("-A",)], ids=["table", "all-namespaces"])
def test_narrow_list_of_runs_has_the_step_and_the_reason(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(console, "width", lambda: 40)
    serve(api, MPI, pods=[*UP[:2], unplaced("worker", 1)], run1_launcher=step(100))
    api.answers |= {path.replace("/namespaces/team", ""): found for path, found in api.answers.items()}

    header, line, why = status(*arguments).out.splitlines()

    names = ["NS", "NAME"] if arguments else ["NAME"]
    assert header.split()[: len(names) + 2] == [*names, "PHASE", "WORKERS"]
    assert line.split() == [*(["team"] if arguments else []), "run1", "Running", "1/2", "100/1000"]
    assert why == "  run1-worker-1: 0/3 nodes are availa..."


def test_list_of_runs_that_are_well_has_no_lines_for_reasons(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", lambda: 40)
    serve(api, MPI, pods=UP, run1_launcher=step(100, at=time.time()))

    assert len(status().out.splitlines()) == 2


def test_terminal_without_a_size_is_80_columns_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((0, 0)))

    assert console.width() == 80


@pytest.mark.parametrize("width", [80, 60, 40])
@pytest.mark.parametrize("arguments", [(LONG,), (), ("-A",)], ids=["one-run", "table", "all-namespaces"])
def test_long_name_is_cut_and_the_phase_is_whole(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch, width: int, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(console, "width", lambda: width)
    monkeypatch.setenv("NO_COLOR", "1")
    job = live(mpi_job(workers=2, gpus=1), release=LONG)
    serve(api, job, pods=[pod(role, number, release=LONG) for role, number in ROLES])
    api.answers |= {path.replace("/namespaces/team", ""): found for path, found in api.answers.items()}

    out = status(*arguments).out

    line = next(line for line in out.splitlines() if line.startswith((LONG[:3], "team ")))
    assert re.search(r"a(\.\.\.)? +(MPIJob +)?Running", line)
    assert max(map(len, out.splitlines())) <= width
    assert "2/2" in line or arguments != ()


@pytest.mark.parametrize(
    ("variable", "value", "is_coloured"),
    [("NO_COLOR", "1", False), ("TERM", "dumb", False), ("NO_COLOR", "", True)],
)
def test_colours_are_for_terminals_of_those_who_want_them(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, is_coloured: bool
) -> None:
    monkeypatch.setattr(console, "width", lambda: 80)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    serve(api, MPI, pods=UP)

    assert ("\x1b[" in status("run1").out) is is_coloured


def test_answer_for_programs_has_no_colour_and_is_strict_json(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", lambda: 80)
    serve(api, MPI, pods=UP, run1_launcher=_line('distrain-progress: {"step": 7, "loss": NaN}'))

    out = status("run1", "-o", "json").out

    assert json.loads(out, parse_constant=lambda word: pytest.fail(word))["loss"] is None


def test_slow_server_is_named_with_the_flag_that_waits_longer(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP)
    api.delays = {f"{NAMESPACE}/pods": 1.0}

    shown = status("run1", "--request-timeout", "200ms")

    assert shown.code == 3
    assert "--request-timeout" in shown.err
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize("trouble", ["slow", "500"])
def test_log_that_is_not_sent_is_told_and_its_figures_are_not_known(api: FakeApi, status: Run, trouble: str) -> None:
    path = f"{NAMESPACE}/pods/run1-launcher/log"
    serve(api, MPI, pods=UP, run1_launcher=step(7))
    if trouble == "slow":
        api.delays = {path: 20.0}
    else:
        api.texts.clear()
        api.answers[path] = 500

    shown = status("run1", "--request-timeout", "3s")

    [line] = [line for line in shown.out.splitlines() if line.startswith("not read")]
    assert shown.code == 0
    assert ("timed out" if trouble == "slow" else "the log of run1-launcher cannot be read") in line
    assert "restarts  " not in shown.out


def test_container_that_has_not_started_has_no_log_and_needs_none(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP)
    api.answers[f"{NAMESPACE}/pods/run1-launcher/log"] = 400

    assert "not read" not in status("run1").out


@pytest.mark.parametrize("spec", [{}, {"mpiReplicaSpecs": None}, {"mpiReplicaSpecs": {"Worker": {}}}])
def test_job_that_its_operator_does_not_accept_has_a_status(api: FakeApi, status: Run, spec: Object) -> None:
    serve(api, {**MPI, "spec": spec}, pods=UP)

    assert status("run1").code == 0
