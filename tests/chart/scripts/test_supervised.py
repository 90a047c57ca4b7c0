"""Test the behaviour that distrain-run and distrain-torchrun have in common, as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chart.scripts import pods
from tests.chart.scripts.launching import follow
from tests.chart.scripts.pods import SCRIPTS, wait_for
from tests.chart.scripts.supervising import COUNT, Bench

TRAINING = "echo training; while ! test -e finish; do sleep 0.05; done"
# STOPPED maps a script to its exit code after SIGTERM has stopped its program. With torchrun this is 1, the exit code
# of torchrun itself.
STOPPED = {"distrain-run": 143, "distrain-torchrun": 1}


@pytest.fixture(params=STOPPED)
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    return Bench(tmp_path, request.param)


def stopping(bench: Bench, line: str) -> str:
    """Return a program that prints the line on SIGTERM and then exits."""
    return f"trap 'echo \"{line}\"; exit {STOPPED[bench.script]}' TERM; {TRAINING}"


def kill_supervisor(process: subprocess.Popen[str]) -> None:
    os.kill(wait_for(lambda: next(iter(pods.children(process.pid)), 0)), signal.SIGKILL)


def test_sigterm_reaches_the_program_and_is_waited_for(bench: Bench) -> None:
    process = bench.start(stopping(bench, "saving"), "--max-restarts=9")
    follow(process, "training")

    process.terminate()

    follow(process, "saving")
    assert process.wait(timeout=300) == 143
    assert bench.cause == "distrain: stopped by SIGTERM"


def test_step_at_which_the_program_stopped_is_reported(bench: Bench) -> None:
    process = bench.start(stopping(bench, "stopped at step 1970 (31520 samples) after SIGTERM; resumes there"))
    follow(process, "training")

    process.terminate()

    assert process.wait(timeout=300) == 143
    assert bench.cause == "distrain: stopped by SIGTERM at step 1970"


def test_killed_supervisor_starts_again_in_its_pod(bench: Bench) -> None:
    process = bench.start(f"{COUNT}; test $try = 2 && exit 0; {TRAINING}", "--max-restarts=1")
    follow(process, "training")

    kill_supervisor(process)

    follow(process, "starting again (restart 1 of 1 in 3600 s): signal 9 killed it")
    assert process.wait(timeout=300) == 0
    # In a pod, the program would have ended together with process 1. In the test, the file `finish` ends the program.
    (bench.folder / "finish").touch()


def test_supervisor_that_is_killed_once_too_often_ends_the_pod_with_the_cause(bench: Bench) -> None:
    process = bench.start(TRAINING, "--max-restarts=0")
    follow(process, "training")

    kill_supervisor(process)

    follow(process, "distrain: signal 9 killed it, this pod's own process")
    assert process.wait(timeout=300) == 1
    assert bench.cause == "distrain: signal 9 killed it, this pod's own process"
    (bench.folder / "finish").touch()


def test_what_outlives_a_killed_supervisor_is_ended_in_its_pod(bench: Bench) -> None:
    killing = "setsid sleep 1000 & echo $! >rank; kill -9 $PPID; sleep 1000"
    program = f"{COUNT}; if test $try = 1; then {killing}; fi; ! kill -0 $(cat rank)"

    code, output = bench.run(program, "--max-restarts=1", before=["unshare", "--pid", "--fork", "--kill-child"])

    assert code == 0, output
    assert "(restart 1 of 1 in 3600 s): signal 9 killed it" in output


def test_failures_are_counted_on_after_the_supervisor_was_killed(bench: Bench) -> None:
    process = bench.start(f"{COUNT}; test $try = 1 && exit 1; {TRAINING}", "--max-restarts=2")
    follow(process, "training")

    kill_supervisor(process)

    follow(process, "starting again (restart 2 of 2 in 3600 s): signal 9 killed it")
    follow(process, "training")
    # In a pod, the program would have ended together with process 1. In the test, the file `finish` ends the program.
    (bench.folder / "finish").touch()
    assert process.wait(timeout=300) == 0


def test_error_that_no_code_expects_ends_the_pod_with_a_cause(bench: Bench) -> None:
    # Nobody reads the script's output any more, so the script cannot pass on the program's output.
    process = bench.start("while ! test -e go; do sleep 0.05; done; echo training", "--max-restarts=9")
    assert process.stdout is not None
    process.stdout.close()

    (bench.folder / "go").touch()

    assert process.wait(timeout=300) == 1
    assert bench.cause == "distrain: unexpected BrokenPipeError: [Errno 32] Broken pipe; this pod's log says why"


def test_command_line_without_a_program_is_refused(bench: Bench) -> None:
    done = subprocess.run([sys.executable, SCRIPTS / bench.script], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "needs a program after --" in done.stderr
