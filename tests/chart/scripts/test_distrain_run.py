"""Test distrain-run as a real process that restarts a pod's program, within limits, and forwards signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.chart.scripts.launching import follow
from tests.chart.scripts.pods import SCRIPTS, load, wait_for
from tests.chart.scripts.supervising import COUNT, OUT_OF_MEMORY, Bench, put_oom_kills

TRAINING = "trap 'echo saving; exit 143' TERM; echo training; while ! test -e finish; do sleep 0.05; done"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "distrain-run")


def test_failed_program_is_started_again_as_often_as_allowed(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 3 || exit 1", "--max-restarts=2")

    assert (code, bench.cause) == (0, ""), output
    assert "starting again (restart 2 of 2 in 3600 s): sh ended with exit code 1; this pod's log says why" in output


def test_programs_of_other_pods_have_two_seconds_to_end_before_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    module, pauses = load("distrain-run"), list[float]()
    ends = iter([(module.Ended(1, "a failure", True), "", ""), (module.Ended(0, "", False), "", "")])
    monkeypatch.setattr(module, "run", lambda *_: next(ends))
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=pauses.append, monotonic=lambda: 0.0))

    assert module.work(SimpleNamespace(), [], module.Restarts(1, 3600), False) == 0
    assert pauses == [2]


def test_failure_without_end_is_failed_with_the_first_cause_first(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; echo distrain: try $try; kill -9 $$", "--max-restarts=1")

    # The operator would restart the pod after an exit code of 128 or higher.
    assert code == 1, output
    assert bench.cause == "distrain: try 1 (the first of 2 failures within 3600 s; the last: try 2)"


def test_failure_on_a_full_disk_counts_as_every_other(bench: Bench) -> None:
    no_writes = ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh")

    code, output = bench.run("mkdir tried || exit 0; exit 1", "--max-restarts=1", before=no_writes)

    assert code == 0, output
    assert "starting again (restart 1 of 1 in 3600 s): sh ended with exit code 1; this pod's log says why" in output


@pytest.mark.parametrize("file", ["memory.events", "memory/memory.oom_control"])
@pytest.mark.parametrize("end", ["kill -9 $$", "exit 137"])
def test_program_that_ran_out_of_memory_is_named(bench: Bench, file: str, end: str) -> None:
    put_oom_kills(bench.folder, 4, file)

    code, output = bench.run(f"echo 'oom_kill 5' >cgroup/{file}; {end}")

    assert (code, bench.cause) == (1, f"distrain: {OUT_OF_MEMORY}"), output


def test_program_that_another_process_killed_did_not_run_out_of_memory(bench: Bench) -> None:
    put_oom_kills(bench.folder, 4)

    bench.run("kill -9 $$")

    assert bench.cause == "distrain: sh ended with exit code 137; this pod's log says why"


@pytest.mark.parametrize("content", [None, "", "oom_kill many", "low 0"])
def test_kill_is_said_to_be_like_that_of_memory_where_the_kernel_tells_nothing(
    bench: Bench, content: str | None
) -> None:
    if content is not None:
        put_oom_kills(bench.folder, 0)
        (bench.folder / "cgroup" / "memory.events").write_text(content)

    bench.run("kill -9 $$")

    assert bench.cause == "distrain: sh was killed by signal 9, as when memory runs out; see workers.memory"


@pytest.mark.parametrize(("code", "cause"), [(2, "data.uri: no such bucket"), (4, "a newer run has taken over")])
def test_failure_that_a_restart_cannot_fix_is_not_restarted(bench: Bench, code: int, cause: str) -> None:
    ended, output = bench.run(f"echo distrain: {cause}; exit {code}", "--max-restarts=9")

    assert (ended, bench.cause) == (code, f"distrain: {cause}")
    assert "starting again" not in output


def test_program_that_the_image_lacks_is_reported(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "distrain-run"), "--max-restarts=9", "--", "no-such-program"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 2
    assert done.stderr == "distrain: command: no-such-program: No such file or directory\n"


def test_missing_program_is_reported_whatever_the_encoding_of_its_name(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    options = [f"--termination-log={log}", "--max-restarts=9"]
    command: list[str | bytes | Path] = [sys.executable, SCRIPTS / "distrain-run", *options, "--", b"\xfc.sh"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 2, done.stderr
    assert log.read_text() == "distrain: command: \\udcfc.sh: No such file or directory"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("no-such-program", "sh: 1: no-such-program: not found", id="not-found"),
        pytest.param("./file", "sh: 1: ./file: Permission denied", id="not-executable"),
        pytest.param("chmod +x file; ./file", "sh: 1: ./file: Exec format error", id="of-another-architecture"),
        pytest.param("exit 126", "exit code 126: a shell could not run a program", id="without-a-word"),
        pytest.param(
            "python3 gone.py", r"\S*python\S*: can't open file '.*gone.py': .* No such file or directory", id="script"
        ),
        pytest.param("python3 -m gone", r"\S*python\S*: No module named gone", id="module"),
    ],
)
def test_program_that_a_shell_cannot_start_ends_it_at_once(bench: Bench, program: str, words: str) -> None:
    (bench.folder / "file").write_bytes(b"\x7fELF of another processor")

    code, output = bench.run(program, "--max-restarts=9")

    assert re.fullmatch(f"distrain: command: {words}", bench.cause), output
    assert code == 2
    assert "starting again" not in output


def test_image_without_the_trainer_is_named_with_the_value_that_brings_it() -> None:
    found = load("distrain_output.py").Found()
    found.read([b"/usr/bin/python3: No module named distrain_trainer\n"])

    assert found.why_not_started(1, ["python3", "-m", "distrain_trainer"]) == (
        "image.repository: /usr/bin/python3: No module named distrain_trainer; set trainer.delivery to "
        "chart, which delivers the trainer, or use an image that contains the trainer"
    )


def test_delivered_trainer_that_cannot_start_is_a_fault_of_the_image() -> None:
    found = load("distrain_output.py").Found()
    found.read([b"env: 'python3': No such file or directory\n"])

    why = found.why_not_started(127, ["python3", "/opt/distrain/bin/distrain-trainer", "distrain_trainer"])

    assert why == "image.repository: env: 'python3': No such file or directory"


RAN = [
    pytest.param("echo step 1000; exit 127", 127, id="127-of-its-own"),
    pytest.param("echo step 1000; exit 126", 126, id="126-of-its-own"),
    pytest.param("no-such-helper; echo training for hours; exit 127", 127, id="a-shells-helper"),
    pytest.param("python3 -m nosuch_helper; echo training for hours; exit 1", 1, id="a-module-that-it-can-do-without"),
    pytest.param(
        "echo \"FileNotFoundError: [Errno 2] No such file or directory: 'sh'\"; echo training; exit 1", 1, id="caught"
    ),
]


@pytest.mark.parametrize(("program", "code"), RAN)
def test_program_that_had_started_is_started_again(bench: Bench, program: str, code: int) -> None:
    ended, output = bench.run(program, "--max-restarts=1")

    assert ended == code, output
    assert output.count("starting again (restart 1 of 1") == 1
    assert bench.cause.startswith(f"distrain: sh ended with exit code {code}; this pod's log says why (the first of 2")


def test_program_that_ends_long_after_its_start_had_been_started() -> None:
    found = load("distrain_output.py").Found()
    found.read([b"sh: 1: train: not found\n"])
    soon = found.why_not_started(127, ["sh"])

    found.started -= 60

    assert (soon, found.why_not_started(127, ["sh"])) == ("command: sh: 1: train: not found", "")


def test_line_that_nobody_would_read_is_not_looked_through() -> None:
    found = load("distrain_output.py").Found()

    found.read([b'"a": 1, ' * 10_000 + b"sh: train: not found\n"])

    assert (found.shell, found.has_printed) == ("", True)


def test_exit_code_of_a_shell_that_ran_its_programs_is_a_failure(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 2 || ls /gone || exit 1", "--max-restarts=1")

    assert code == 0, output


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param(
            ["python3 /app/train.py"],
            'command: "python3 /app/train.py" is one string with spaces, and no program has this name; '
            'write command: ["python3", "/app/train.py"]',
            id="one-word",
        ),
        pytest.param(
            ["torchrun", "train.py"],
            "image.repository: the image r/tf:1 has no torchrun, which starts the ranks of a worker with several GPUs; "
            "use an image with PyTorch, or choose another job.kind",
            id="torchrun",
        ),
        pytest.param(
            ["no-such-python", "-m", "distrain_trainer"],
            "image.repository: no-such-python: No such file or directory",
            id="trainer",
        ),
    ],
)
def test_mistake_in_the_command_is_named(program: list[str], words: str) -> None:
    command = [sys.executable, str(SCRIPTS / "distrain-run"), "--max-restarts=9", "--image=r/tf:1", "--", *program]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stderr) == (2, f"distrain: {words}\n")


def test_program_of_another_architecture_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF of another processor")
    program.chmod(0o755)
    command = [sys.executable, str(SCRIPTS / "distrain-run"), "--max-restarts=9", "--", str(program)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 2
    assert done.stderr == (
        f"distrain: command: {program}: Exec format error; it is for another kind of processor, or a script without a "
        "first line such as #!/bin/sh\n"
    )


def test_program_that_fails_when_it_should_stop_is_reported(bench: Bench) -> None:
    process = bench.start("trap 'exit 9' TERM; echo training; while :; do sleep 0.05; done")
    follow(process, "training")

    process.terminate()

    assert process.wait(timeout=300) == 143
    assert bench.cause == "distrain: stopped by SIGTERM; sh ended with exit code 9"


def test_program_that_stops_with_another_pods_starts_again_without_counting(bench: Bench) -> None:
    process = bench.start(f"{COUNT}; test $try = 2 && exit 0; echo $$ >pid; {TRAINING}", "--max-restarts=0")
    follow(process, "training")

    os.kill(int((bench.folder / "pid").read_text()), signal.SIGTERM)

    follow(
        process,
        "the program stopped although this pod was not asked to stop; starting it again, which does not "
        "count against job.maxRestarts",
    )
    assert process.wait(timeout=300) == 0


def test_stops_at_step_boundaries_never_count(bench: Bench) -> None:
    stops = f"{COUNT}; test $try = 4 || {{ echo stopped at step $try after another pod left; exit 143; }}"

    code, output = bench.run(stops, "--max-restarts=0")

    assert code == 0, output
    assert output.count("the program stopped at step") == 3


@pytest.mark.parametrize(("last_words", "words"), [("stopped at step 12 x", " at step 12"), ("saving", "")])
def test_program_that_only_stops_is_not_started_for_ever(bench: Bench, last_words: str, words: str) -> None:
    code, output = bench.run(f"echo {last_words}; exit 143", "--max-restarts=1")

    assert (code, output.count("does not count"), output.count("(restart 1 of 1 in")) == (1, 1, 1), output
    assert bench.cause == (
        f"distrain: the program stopped{words} although this pod was not asked to stop, and it had made no step "
        "since its previous stop (the first of 2 failures within 3600 s)"
    )


def test_program_that_stays_halted_is_killed_and_starts_again(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 2 && exit 0; kill -STOP $$", "--max-restarts=1")

    assert code == 0, output
    assert "starting again (restart 1 of 1 in 3600 s): sh was halted for 1 s, and so killed" in output


def test_program_that_is_halted_for_a_moment_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain_program.py")
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    program = module.Program(["sleep", "60"], dict(os.environ), ["sleep"])

    for _ in range(3):
        os.kill(program.process.pid, signal.SIGSTOP)
        wait_for(program.is_halted)
        program.kill_when_halted()
        now += module.SECONDS_HALTED
        program.kill_when_halted()
        os.kill(program.process.pid, signal.SIGCONT)
        wait_for(lambda: not program.is_halted())
        program.kill_when_halted()

    assert not program.is_killed_here
    program.kill()
    program.process.communicate()


def test_what_outlives_a_killed_program_is_ended_in_its_pod(bench: Bench) -> None:
    """torchrun starts each rank in a session of its own, so a rank can outlive a killed torchrun."""
    outlives = "setsid sleep 1000 & echo $! >rank; kill -9 $$"
    # Process 1 may not have reaped the killed process yet.
    is_gone = "for _ in $(seq 100); do kill -0 $(cat rank) || exit 0; sleep 0.1; done; exit 1"
    program = f"{COUNT}; if test $try = 1; then {outlives}; fi; {is_gone}"

    code, output = bench.run(program, "--max-restarts=1", before=["unshare", "--pid", "--fork", "--kill-child"])

    assert code == 0, output
