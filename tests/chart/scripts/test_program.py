"""Test what the pods' scripts report about a killed program, and what a new launcher learns about earlier launchers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.chart.scripts.pods import load


@pytest.mark.parametrize(
    ("text", "are_elsewhere", "who"),
    [
        pytest.param("kill -9 $$", False, "sh", id="own"),
        pytest.param("exit 137", False, "sh", id="own-shell"),
        pytest.param("kill -9 $$", True, "sh", id="mpirun"),
        pytest.param("exit 137", True, "a rank", id="rank-of-mpirun"),
    ],
)
def test_killed_program_is_named(text: str, are_elsewhere: bool, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain_program.py")
    monkeypatch.setattr(module, "oom_kills", lambda: None)

    program = module.Program(["sh", "-c", text], dict(os.environ), ["train.py"], are_elsewhere)
    program.follow(False)
    ended = program.end()

    assert ended == (137, f"{who} was killed by signal 9, as when memory runs out; see workers.memory", False)


def test_program_that_the_script_itself_kills_is_not_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain_program.py")
    monkeypatch.setattr(module, "oom_kills", lambda: None)
    program = module.Program(["sleep", "60"], dict(os.environ), ["train.py"])

    program.kill()

    assert program.end() == (137, "sleep ended with exit code 137; this pod's log says why", False)


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_cause_is_known_as_soon_as_its_line_ends(end: bytes) -> None:
    program = load("distrain_program.py").Program(["true"], dict(os.environ), ["train.py"])

    program.look_for_cause(b"distrain: no mem")
    before = program.cause
    program.look_for_cause(b"ory" + end)

    assert (before, program.cause) == ("", "no memory")
    assert program.end().code == 0


def test_script_whose_last_words_fail_too_has_failed() -> None:
    module = load("distrain_program.py")

    def fail(*_: object) -> int:
        raise OSError

    assert module.run_as_child(fail, module.Restarts(1, 3600), lambda _: None, fail) == 1


def test_program_is_told_to_stop_once() -> None:
    module = load("distrain_program.py")
    program = module.Program(["sleep", "60"], dict(os.environ), ["train.py"])

    told = [program.terminate(), program.terminate()]

    assert told == [True, False]
    assert program.end().code == 143
    # A later process may have the same id.
    assert program.killer.finished.is_set()


def test_last_failure_is_named_even_if_it_has_left_the_window() -> None:
    restarts = load("distrain_program.py").Restarts(1, 0)

    restarts.add("a cause")

    assert restarts.line() == "starting again (restart 1 of 1 in 0 s): a cause"
    assert restarts.cause() == "a cause"


def test_only_failures_that_follow_each_other_soon_are_waited_after(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load("distrain_program.py")
    restarts, pauses = program.Restarts(100, 3600), []

    for now in (0, 1, 3, 7, 15, 30, 100, 200):
        monkeypatch.setattr(program.time, "monotonic", lambda now=now: now)
        restarts.add("a cause")
        pauses.append(restarts.pause())

    assert pauses == [0, 2, 4, 8, 10, 10, 0, 0]


def test_first_and_last_cause_of_the_failures_are_taken_up() -> None:
    module = load("distrain_program.py")
    earlier, later = (module.Restarts(9, 3600) for _ in range(2))
    for cause in ("first", "second", "third"):
        earlier.add(cause)

    later.take_up(earlier.as_text())

    assert [cause for _, cause in later.failures] == ["first", "third", "third"]
    assert later.cause() == "first (the first of 3 failures within 3600 s; the last: third)"


def test_next_launcher_learns_of_the_newest_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain_program.py")
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    earlier, later = (module.Restarts(9, 3600) for _ in range(2))
    for cause in ("first", "second", "third"):
        earlier.add(cause)

    later.take_up(earlier.as_text())

    assert [cause for _, cause in later.failures] == ["second", "third"]


@pytest.mark.parametrize(("window", "count"), [(1000, 0), (4000, 1)])
def test_failure_of_an_earlier_launcher_keeps_its_time(window: float, count: int) -> None:
    restarts = load("distrain_program.py").Restarts(9, window)

    restarts.take_up(json.dumps([[time.time() - 3000], "a cause", "a cause"]))

    assert len(restarts.failures) == count


def test_failures_are_counted_anew_when_the_memory_for_them_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain_program.py")
    monkeypatch.setattr(module, "SHARED_BYTES", 2 * len(json.dumps([time.monotonic(), "cause 0"])) + 10)
    restarts, seen = module.Restarts(1, 3600), []

    for number in range(3):
        restarts.add(f"cause {number}")
        seen.append([cause for _, cause in restarts.failures])

    assert seen == [["cause 0"], ["cause 0", "cause 1"], ["cause 2"]]


def test_as_many_long_causes_as_a_launcher_stores_fit_into_the_memory() -> None:
    module = load("distrain_program.py")
    earlier, later = (module.Restarts(9, 3600) for _ in range(2))
    earlier.write([(time.monotonic(), "\N{ROCKET}" * 200)] * module.MOST_KEPT)

    later.take_up(earlier.as_text())

    assert [len(restarts.failures) for restarts in (earlier, later)] == [module.MOST_KEPT] * 2


def test_outcome_is_that_of_an_earlier_launcher_alone(tmp_path: Path) -> None:
    module = load("distrain_keepers.py")
    texts = {"whole": "1 the cause", "cut": "", "other": "no outcome"}
    way = SimpleNamespace(tries_at_once=2, output=lambda host, _: texts[host])

    def found(*hosts: str) -> object:
        (tmp_path / "hostfile").write_text("".join(f"{host} slots=1\n" for host in hosts))
        return module.earlier_end(way, str(tmp_path / "hostfile"))

    assert found("cut", "other", "whole") == (1, "the cause", True)
    assert found("cut", "other") is None


def test_failures_are_taken_up_from_the_longest_list_that_a_launcher_wrote(tmp_path: Path) -> None:
    module = load("distrain_keepers.py")
    texts = {
        "one": '[[1.0], "first", "last"]',
        "two": '[[1.0, 2.0], "first", "last"]',
        "cut": '[[1.0, 2.0, 3.0], "fir',
        "other": '[[1, 2, 3], 5, "last"]',
        "another": '[[1, 2, 3], "first", null]',
        "words": '[["x", "y", "z"], "first", "last"]',
        "number": "7",
        "silent": "",
    }
    way = SimpleNamespace(tries_at_once=2, output=lambda host, _: texts[host])

    def taken_up(*hosts: str) -> str:
        (tmp_path / "hostfile").write_text("".join(f"{host} slots=1\n" for host in hosts))
        return str(module.earlier_restarts(way, str(tmp_path / "hostfile")))

    for others in ("cut", "other", "another", "words", "number", "silent"):
        assert taken_up("one", others, "two") == texts["two"]
    assert taken_up("silent") == ""


# The output of Open MPI 4.1 when two ranks end with an exit code.
BORDER = "-" * 74
NOTES = f"""\
{BORDER}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{BORDER}
{BORDER}
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[52045,1],0]
  Exit code:    CODE
{BORDER}
"""
OTHER = f"{BORDER}\nThere are not enough slots available in the system\n{BORDER}\n"
OWN = f"step 1\n{BORDER}\ntotal: 3\n{BORDER}\n----"


def run_as_mpirun(text: str, code: int, capfdbinary: pytest.CaptureFixture[bytes]) -> str:
    """Run a program that prints the text in pieces and exits with the code. Return the launcher's output."""
    module = load("distrain_program.py")
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    command = [
        "python3",
        "-c",
        f"import sys, time\nfor each in {pieces!r}: print(each, end='', flush=True)\nsys.exit({code})",
    ]
    program = module.Program(command, dict(os.environ), ["train.py"], True)
    program.follow(False)
    program.end()
    return capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        pytest.param(f"step 1\n{NOTES}", 143, "step 1\n", id="stopped"),
        pytest.param(f"step 1\n{NOTES}", 3, f"step 1\n{NOTES}", id="failed"),
        pytest.param(OTHER, 143, OTHER, id="another-note"),
        pytest.param(OWN, 143, OWN, id="lines-of-the-program"),
        pytest.param(
            f"{BORDER}\n{BORDER}\nPrimary job  ended\n", 143, f"{BORDER}\n{BORDER}\nPrimary job  ended\n", id="cut"
        ),
        pytest.param("50%\r60%", 0, "50%\r60%", id="progress-bar"),
    ],
)
def test_stop_at_a_step_boundary_does_not_look_like_a_failure(
    text: str, code: int, shown: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run_as_mpirun(text, code, capfdbinary) == shown


def test_notes_are_found_wherever_the_output_is_cut() -> None:
    text = f"step 1\n{NOTES}step 2\n{NOTES}".encode()
    border = text.index(BORDER.encode())
    for size in range(1, len(text) + 1):
        for start in (0, border % size):
            held_back = load("distrain_output.py").HeldBack()
            chunks = [text[:start], *(text[at : at + size] for at in range(start, len(text), size))]
            shown = b"".join(map(held_back.pass_on, chunks))
            assert shown + held_back.left(True) == b"step 1\nstep 2\n", (size, start)
