"""Test that distrain-launch restarts a failed run, within limits, and finally reports the first failure's cause."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.chart.scripts import pods
from tests.chart.scripts.launching import ENDED, TRAINING, Bench, end_with_children, follow
from tests.chart.scripts.pods import wait_for
from tests.matrix import one_of

FULL = pytest.mark.full
UNKNOWN = ENDED.removeprefix("distrain: ")
# Each time the program is started, it appends a line to the file `tries`, and counts the lines.
COUNT = "echo x >>tries; try=$(wc -l <tries)"


def test_failed_mpirun_is_started_again_as_often_as_allowed(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 3 || exit 5", "--max-restarts=2", "--restart-window=60")

    assert code == 0, output
    assert bench.cause == ""
    said = [line for line in output.splitlines() if "starting again" in line]
    assert said == [
        f"distrain-launch: starting again (restart 1 of 2 in 60 s): {UNKNOWN.format(5)}",
        f"distrain-launch: starting again (restart 2 of 2 in 60 s): {UNKNOWN.format(5)}",
    ]


def test_failure_without_end_is_failed_with_the_first_cause_first(bench: Bench) -> None:
    code, output = bench.run(f'{COUNT}; echo "distrain: try $try"; exit 5', "--max-restarts=2")

    assert code == 5, output
    assert bench.cause == "distrain: try 1 (the first of 3 failures within 3600 s; the last: try 3)"


def test_failure_that_stays_the_same_is_reported_once(bench: Bench) -> None:
    bench.run("echo distrain: no memory; exit 5", "--max-restarts=1")

    assert bench.cause == "distrain: no memory (the first of 2 failures within 3600 s)"


def test_restart_longer_ago_than_the_window_does_not_count(bench: Bench) -> None:
    mpirun = f'{COUNT}; sleep 0.4; echo "distrain: try $try"; test $try -lt 5 && exit 5; exit 0'

    code, output = bench.run(mpirun, "--max-restarts=1", "--restart-window=0.3")

    assert code == 0, output
    assert output.count("starting again (restart 1 of 1") == 4


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        pytest.param(2, "data.uri: no such bucket", id="mistake-that-the-program-names"),
        pytest.param(4, "a newer run has taken over", id="fenced"),
    ],
)
def test_failure_that_a_restart_cannot_fix_is_not_restarted(bench: Bench, code: int, cause: str) -> None:
    ended, output = bench.run(f"echo 'distrain: {cause}'; exit {code}", "--max-restarts=9")

    assert (ended, bench.cause) == (code, f"distrain: {cause}")
    assert "starting again" not in output


def test_exit_code_2_of_a_program_that_names_no_mistake_is_a_failure(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 2 || exit 2", "--max-restarts=1")

    assert code == 0, output


BOX = "-" * 74
EXECVE = f"""{BOX}
Open MPI tried to fork a new process via the "execve" system call but
failed.  Open MPI checks many things before attempting to launch a

  Application name:  program
  Error:             {{}}
{BOX}"""


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        pytest.param(
            f"{BOX}\nmpirun was unable to find the specified executable file, and therefore", 134,
            "command: program: No such file or directory", id="not-found",
        ),
        pytest.param(
            f"{BOX}\nprterun was unable to find the specified executable file, and therefore did", 1,
            "command: program: No such file or directory", id="not-found-by-open-mpi-5", marks=FULL,
        ),
        pytest.param(
            f"{BOX}\nmpirun was unable to launch the specified application as it could not access", 132,
            "command: program: not found, or not executable", id="not-executable", marks=FULL,
        ),
        pytest.param(
            EXECVE.format("Exec format error"), 131,
            "command: program: Exec format error; it is for another kind of processor, or a script without a first "
            "line such as #!/bin/sh", id="of-another-architecture",
        ),
        pytest.param(
            EXECVE.format("program has a bad interpreter on the first line."), 131,
            "command: program: program has a bad interpreter on the first line", id="script-for-a-missing-shell",
            marks=FULL,
        ),
        pytest.param(
            "[1,0]<stderr>:sh: 1: train: not found", 127, "command: sh: 1: train: not found", id="in-a-shell",
            marks=FULL,
        ),
        pytest.param(
            "/usr/bin/python3: can't open file '/app/train.py': [Errno 2] No such file or directory", 2,
            "command: /usr/bin/python3: can't open file '/app/train.py': [Errno 2] No such file or directory",
            id="pythons-script",
        ),
    ],
)  # fmt: skip
def test_program_that_cannot_be_started_ends_the_run_at_once(bench: Bench, said: str, code: int, words: str) -> None:
    ended, output = bench.run(f"cat <<'END'\n{said}\nEND\nexit {code}", "--max-restarts=9")

    assert (ended, bench.cause) == (2, f"distrain: {words}"), output
    assert "starting again" not in output


def test_process_that_could_not_be_forked_for_a_moment_is_a_failure(bench: Bench) -> None:
    said = EXECVE.format("Resource temporarily unavailable")

    code, output = bench.run(
        f"{COUNT}; test $try = 2 && exit 0; cat <<'END'\n{said}\nEND\nexit 131", "--max-restarts=1"
    )

    assert code == 0, output


def test_command_of_one_word_is_named_as_the_mistake(bench: Bench) -> None:
    said = "mpirun was unable to launch the specified application as it could not access"

    code, _ = bench.run(f"echo '{said}'; exit 132", "--max-restarts=9", program="python3 /app/train.py")

    assert (code, bench.cause) == (
        2,
        'distrain: command: "python3 /app/train.py" is one string with spaces, and no program has this name; '
        'write command: ["python3", "/app/train.py"]',
    )


def test_finished_run_is_not_started_again(bench: Bench) -> None:
    code, output = bench.run(COUNT, "--max-restarts=9", "--rescale=live")

    assert (code, (bench.folder / "tries").read_text()) == (0, "x\n"), output


def test_program_that_stops_by_itself_each_time_is_not_started_for_ever(bench: Bench) -> None:
    code, output = bench.run("exit 143", "--max-restarts=2", "--rescale=live")

    assert code == 1, output
    assert bench.cause == (
        "distrain: the program stopped although it was not asked to stop (the first of 3 failures within 3600 s)"
    )


def test_stop_for_a_worker_that_was_recreated_is_no_failure(bench: Bench) -> None:
    # Replaces /proc/1/stat. The script prints text in the format of /proc/1/stat. The last field of this text is the
    # start time of process 1.
    agent = bench.put_program("kubexec.sh", f'#!/bin/sh\necho "1 (init) S {"0 " * 18}1$(cat pod 2>/dev/null)"\n')
    program = f"{COUNT}; test $try = 2 && exit 0; echo 2 >pod; exit 143"

    code, output = bench.run(program, "--rescale=live", "--rsh=kubexec", f"--kubexec={agent}")

    assert code == 0, output
    assert "the ranks stopped at a step boundary for localhost (made anew)\n" in output


def test_killed_mpirun_is_started_again(bench: Bench) -> None:
    launcher = bench.start(f"echo $$ >pid; {TRAINING}", "--max-restarts=1")
    follow(launcher, "training on 4")

    os.kill(int((bench.folder / "pid").read_text()), signal.SIGKILL)

    follow(launcher, "starting again (restart 1 of 1 in 3600 s): mpirun was killed by signal 9, as when")
    follow(launcher, "training on 4")
    (bench.folder / "finish").touch()
    assert launcher.wait(timeout=300) == 0


def child(process: subprocess.Popen[str]) -> int:
    """Return the launcher's child process, which does all the work."""
    return wait_for(lambda: next(iter(pods.children(process.pid)), 0))


def test_killed_launcher_starts_again_in_its_pod(bench: Bench) -> None:
    launcher = bench.start(TRAINING, "--max-restarts=1")
    follow(launcher, "training on 4")

    os.kill(child(launcher), signal.SIGKILL)

    follow(launcher, "starting again (restart 1 of 1 in 3600 s): signal 9 killed it")
    follow(launcher, "training on 4")
    (bench.folder / "finish").touch()
    assert launcher.wait(timeout=300) == 0


def test_failures_are_counted_on_after_the_launcher_was_killed(bench: Bench) -> None:
    launcher = bench.start(f"{COUNT}; test $try = 1 && exit 5; {TRAINING}", "--max-restarts=2")
    follow(launcher, "starting again (restart 1 of 2")
    follow(launcher, "training on 4")

    os.kill(child(launcher), signal.SIGKILL)

    follow(launcher, "starting again (restart 2 of 2 in 3600 s): signal 9 killed it")
    follow(launcher, "training on 4")
    (bench.folder / "finish").touch()
    assert launcher.wait(timeout=300) == 0


@pytest.mark.parametrize("option", ["--keep-outcome", "--end-workers"])
def test_next_launcher_goes_on_counting(bench: Bench, option: str) -> None:
    mpirun = f"{COUNT}; test $try = 2 || exit 5; {TRAINING}"
    launcher = bench.start(mpirun, "--max-restarts=2", option)
    follow(launcher, "training on 4")
    end_with_children(launcher)
    launcher.wait()
    # In a pod, mpirun would have ended together with the container. In the test, the file `finish` ends mpirun.
    (bench.folder / "finish").touch()

    # The first launcher has counted one failure before it was killed. The new launcher counts two more failures: the
    # loss of the first launcher, and that of mpirun.
    code, output = bench.run(mpirun, "--max-restarts=2", option)

    assert code == 5
    assert "an earlier launcher of this run has counted 1 restarts" in output
    assert "starting again (restart 2 of 2" in output
    assert "the first of 3 failures within 3600 s" in bench.cause


def test_failure_is_kept_before_the_launcher_waits_for_the_workers(bench: Bench) -> None:
    # No worker answers at the second address, 127.0.0.9. The launcher waits for the worker at this address, and the
    # test kills the launcher while it waits.
    mpirun = 'echo "localhost slots=4\n127.0.0.9 slots=1" >hostfile; exit 5'
    launcher = bench.start(mpirun, "--max-restarts=3", "--keep-outcome")
    follow(launcher, "starting again (restart 1 of 3")
    try:
        wait_for(lambda: (bench.folder / "worker" / "distrain-restarts").exists())
    finally:
        end_with_children(launcher)
        launcher.wait()

    code, output = bench.run("exit 0", "--max-restarts=3", "--keep-outcome")

    assert code == 0
    assert "an earlier launcher of this run has counted 1 restarts" in output


@pytest.mark.parametrize("text", one_of(["[[17000", "[null]", "5", "{}", "[[null], 1, 2]", '[["x"], "a", "b"]']))
def test_half_a_count_is_none(bench: Bench, text: str) -> None:
    (bench.folder / "worker").mkdir()
    (bench.folder / "worker" / "distrain-restarts").write_text(text)

    code, output = bench.run("exit 0", "--keep-outcome")

    assert code == 0, output


@pytest.mark.parametrize("text", one_of(["x", "-", " 5"]))
def test_half_an_outcome_is_none(bench: Bench, text: str) -> None:
    (bench.folder / "worker").mkdir()
    (bench.folder / "worker" / "distrain-outcome").write_text(text)

    code, output = bench.run("echo runs", "--keep-outcome")

    assert (code, "runs\n" in output) == (0, True), output


def test_restart_that_an_earlier_launcher_counted_grows_old_too(bench: Bench) -> None:
    (bench.folder / "worker").mkdir()
    text = json.dumps([[time.time() - 100, time.time() - 10], "a cause", "another"])
    (bench.folder / "worker" / "distrain-restarts").write_text(text)

    code, output = bench.run("exit 5", "--max-restarts=2", "--restart-window=60", "--keep-outcome")

    assert code == 5
    assert "counted 1 restarts" in output
    assert bench.cause.startswith("distrain: another (the first of 3 failures within 60 s")


def test_sigterm_between_two_tries_ends_at_once(bench: Bench) -> None:
    # After mpirun has failed once, the hostfile lists only 127.0.0.9, where no worker answers.
    mpirun = 'echo "127.0.0.9 slots=1" >hostfile; exit 5'
    launcher = bench.start(mpirun, "--max-restarts=9")
    follow(launcher, "starting again (restart 1 of 9")

    launcher.terminate()

    assert launcher.wait(timeout=300) == 143
    assert bench.cause == "distrain: stopped by SIGTERM"


def test_sigterm_during_a_line_of_the_launcher_ends_it_at_once(bench: Bench) -> None:
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    os.write(writer, b"." * size)
    launcher = dataclasses.replace(bench, output=writer).start()
    os.close(writer)
    [child] = wait_for(lambda: list(filter(is_writing, pods.children(launcher.pid))))

    os.kill(child, signal.SIGTERM)
    with open(reader, encoding="utf-8") as output:
        lines = output.read()[size:].splitlines()

    assert launcher.wait(timeout=300) == 143
    assert lines[-1] == bench.cause == "distrain: stopped by SIGTERM"


def is_writing(pid: int) -> bool:
    """Tell whether the process is blocked while it writes to stderr."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[1:2] == ["0x2"]


def test_next_launcher_of_a_failed_run_ends_as_it_did(bench: Bench) -> None:
    mpirun = f"{COUNT}; echo distrain: it\\'s too small; exit 5"
    options = ["--max-restarts=1", "--keep-outcome"]
    first, _ = bench.run(mpirun, *options)
    tries = (bench.folder / "tries").read_text()

    second, output = bench.run(mpirun, *options)

    assert first == second == 5
    assert bench.cause == "distrain: it's too small (the first of 2 failures within 3600 s)"
    assert (bench.folder / "tries").read_text() == tries
    assert "all 1 workers answer" not in output


def test_next_launcher_of_one_that_was_stopped_goes_on(bench: Bench) -> None:
    launcher = bench.start(TRAINING, "--keep-outcome")
    follow(launcher, "training on 4")
    launcher.terminate()
    assert launcher.wait(timeout=300) == 143

    code, output = bench.run("echo goes on", "--keep-outcome")

    assert code == 0
    assert "goes on\n" in output
