"""distrain-run as a real process: it starts a pod's program again, within limits, and passes on what it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chart import pods
from tests.chart.launching import follow
from tests.chart.pods import SCRIPTS, wait_for
from tests.chart.supervising import COUNT, Bench

TRAINING = "trap 'echo saving; exit 143' TERM; echo training; while ! test -e finish; do sleep 0.05; done"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "distrain-run")


def test_failed_program_is_started_again_as_often_as_allowed(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 3 || exit 1", "--max-restarts=2")

    assert (code, bench.cause) == (0, ""), output
    assert "starting again (restart 2 of 2 in 3600 s): sh ended with exit code 1; this pod's log says why" in output


def test_failure_without_end_is_failed_with_the_first_cause_first(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; echo distrain: try $try; kill -9 $$", "--max-restarts=1")

    # Below 128: the operator makes a pod anew that ends with more.
    assert code == 1, output
    assert bench.cause == "distrain: try 1 (the first of 2 failures within 3600 s; the last: try 2)"


@pytest.mark.parametrize(("code", "cause"), [(2, "data.uri: no such bucket"), (4, "a newer run has taken over")])
def test_what_another_start_would_not_change_is_not_started_again(bench: Bench, code: int, cause: str) -> None:
    ended, output = bench.run(f"echo distrain: {cause}; exit {code}", "--max-restarts=9")

    assert (ended, bench.cause) == (code, f"distrain: {cause}")
    assert "starting again" not in output


def test_program_that_the_image_lacks_is_said(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "distrain-run"), "--max-restarts=9", "--", "no-such-program"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)

    assert done.returncode == 2
    assert done.stderr == "distrain: command: no-such-program: No such file or directory\n"


def test_sigterm_reaches_the_program_and_is_waited_for(bench: Bench) -> None:
    process = bench.start(TRAINING, "--max-restarts=9")
    follow(process, "training")

    process.terminate()

    follow(process, "saving")
    assert process.wait(timeout=5) == 143
    assert bench.cause == "distrain: stopped by SIGTERM"


def test_program_that_stops_with_another_pods_starts_again(bench: Bench) -> None:
    process = bench.start(f"{COUNT}; test $try = 2 && exit 0; echo $$ >pid; {TRAINING}", "--max-restarts=1")
    follow(process, "training")

    os.kill(int((bench.folder / "pid").read_text()), signal.SIGTERM)

    follow(process, "the program stopped without this pod having been asked to")
    assert process.wait(timeout=5) == 0


def test_program_that_stays_halted_is_killed_and_starts_again(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 2 && exit 0; kill -STOP $$", "--max-restarts=1")

    assert code == 0, output
    assert "starting again (restart 1 of 1 in 3600 s): sh was halted for 1 s, and so killed" in output


def test_program_that_is_halted_for_a_moment_goes_on(bench: Bench) -> None:
    process = bench.start(f"echo $$ >pid; {TRAINING}", "--max-restarts=0")
    follow(process, "training")
    pid = int((bench.folder / "pid").read_text())

    for _ in range(3):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.6)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.6)

    (bench.folder / "finish").touch()
    assert process.wait(timeout=5) == 0


def test_killed_supervisor_starts_again_in_its_pod(bench: Bench) -> None:
    process = bench.start(f"{COUNT}; test $try = 2 && exit 0; {TRAINING}", "--max-restarts=1")
    follow(process, "training")

    os.kill(wait_for(lambda: next(iter(pods.children(process.pid)), 0)), signal.SIGKILL)

    follow(process, "starting again (restart 1 of 1 in 3600 s): signal 9 killed it")
    assert process.wait(timeout=5) == 0
    # What process 1 of a pod would have ended.
    (bench.folder / "finish").touch()


def test_what_outlives_a_killed_program_is_ended_in_its_pod(bench: Bench) -> None:
    """torchrun's ranks are in sessions of their own."""
    outlives = "setsid sleep 60 & echo $! >rank; kill -9 $$"
    program = f"{COUNT}; if test $try = 1; then {outlives}; fi; ! kill -0 $(cat rank)"

    code, output = bench.run(program, "--max-restarts=1", before=["unshare", "--pid", "--fork", "--kill-child"])

    assert code == 0, output


def test_command_line_without_a_program_is_refused() -> None:
    done = subprocess.run([sys.executable, str(SCRIPTS / "distrain-run")], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "needs a program after --" in done.stderr
