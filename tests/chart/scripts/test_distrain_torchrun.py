"""Test distrain-torchrun as a real process, with a fake torchrun that logs like the real torchrun."""

from __future__ import annotations

import array
import fcntl
import signal
import socket
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path

import pytest

from lab.waiting import wait_until
from tests import signal_masks
from tests.chart.scripts.launching import follow
from tests.chart.scripts.pods import SCRIPTS
from tests.chart.scripts.supervising import COUNT, OUT_OF_MEMORY, Bench, put_oom_kills

# FAILED is the line that torchrun 2.9 prints about a failed rank. OLDER is the same line from an older version.
FAILED = "E1122 03:43:52.125000 8 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: {}) local_rank: 0 (pid: 12) of binary: /opt/venv/bin/python3"  # noqa: E501
OLDER = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {}) local_rank: 0 (pid: 9) of binary: /usr/bin/python3"  # noqa: E501
FOR_EVER = "trap 'exit 1' TERM; while :; do sleep 0.05; done"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "distrain-torchrun")


def fails(*codes: int, line: str = FAILED) -> str:
    """Return a shell command that prints what torchrun prints when ranks fail in this order with these exit codes."""
    return "; ".join(f"echo '{line.format(code)}'" for code in codes)


def test_rank_that_ran_out_of_memory_is_named(bench: Bench) -> None:
    put_oom_kills(bench.folder, 4)
    grows = "echo 'oom_kill 5' >cgroup/memory.events"

    code, _ = bench.run(f"{grows}; {fails(-9)}; sleep 0.2; {fails(-9)}; {FOR_EVER}", "--max-restarts=1")

    assert code == 1
    assert bench.cause == (
        f"distrain: {OUT_OF_MEMORY} (the first of 2 failures within 3600 s; the last: a rank ended with exit code 137; "
        "this pod's log says why)"
    )


@pytest.mark.parametrize("line", [FAILED, OLDER])
def test_each_failure_of_a_rank_counts_though_torchrun_goes_on(bench: Bench, line: str) -> None:
    program = f"echo distrain: out of memory; {fails(1, -9, line=line)}; {FOR_EVER}"

    code, output = bench.run(program, "--max-restarts=1")

    assert "starting again (restart 1 of 1 in 3600 s): out of memory" in output
    assert code == 1
    last = "a rank was killed by signal 9, as when memory runs out; see workers.memory"
    assert bench.cause == f"distrain: out of memory (the first of 2 failures within 3600 s; the last: {last})"


def test_rank_that_stopped_at_a_step_boundary_does_not_count(bench: Bench) -> None:
    code, output = bench.run(f"{fails(143, 143, 143)}; echo stopped; exit 0", "--max-restarts=0")

    assert code == 0
    assert "starting again" not in output


@pytest.mark.parametrize(("code", "cause"), [(2, "data.uri: no such bucket"), (4, "a newer run has taken over")])
def test_failure_that_a_restart_cannot_fix_ends_torchrun(bench: Bench, code: int, cause: str) -> None:
    ended, output = bench.run(f"echo distrain: {cause}; {fails(code)}; {FOR_EVER}", "--max-restarts=9")

    assert (ended, bench.cause) == (code, f"distrain: {cause}")
    assert "starting again" not in output


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        pytest.param(
            "FileNotFoundError: [Errno 2] No such file or directory: 'gone'", 1,
            "command: gone: No such file or directory", id="not-found",
        ),
        pytest.param(
            "PermissionError: [Errno 13] Permission denied: 'gone'", 1,
            "command: gone: Permission denied", id="not-executable",
        ),
        pytest.param(
            "OSError: [Errno 8] Exec format error: 'gone'", 1,
            "command: gone: Exec format error; it is for another kind of processor, or a script without a first line "
            "such as #!/bin/sh", id="of-another-architecture",
        ),
        pytest.param(
            f"sh: 1: train: not found\n{FAILED.format(127)}", 1, "command: sh: 1: train: not found", id="in-a-shell",
        ),
    ],
)  # fmt: skip
def test_program_that_torchrun_cannot_start_ends_it_at_once(tmp_path: Path, said: str, code: int, words: str) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(f'#!/bin/sh\ncat <<"END"\n{said}\nEND\nexit {code}\n')
    torchrun.chmod(0o755)
    script = [sys.executable, str(SCRIPTS / "distrain-torchrun"), "--max-restarts=9"]

    done = subprocess.run(
        [*script, "--", str(torchrun), "--no-python", "gone"], capture_output=True, text=True, timeout=300, check=False
    )

    assert (done.returncode, done.stderr) == (2, f"distrain: {words}\n")


def test_file_that_a_rank_misses_is_a_failure_like_others(bench: Bench) -> None:
    missed = "FileNotFoundError: [Errno 2] No such file or directory: '/data/train'"

    code, output = bench.run(f'{COUNT}; test $try = 2 && exit 0; echo "{missed}"; exit 1', "--max-restarts=1")

    assert code == 0, output


def test_module_that_the_ranks_can_do_without_is_not_the_cause(bench: Bench) -> None:
    words = "echo /usr/bin/python3: No module named helper"

    code, output = bench.run(
        f"{words}; echo training; {fails(1)}; echo training; {fails(1)}; {FOR_EVER}", "--max-restarts=1"
    )

    assert code == 1
    assert bench.cause.startswith("distrain: a rank ended with exit code 1; this pod's log says why (the first of 2")
    assert "starting again (restart 1 of 1" in output


def test_image_without_torchrun_is_named_with_what_to_change() -> None:
    script = [sys.executable, str(SCRIPTS / "distrain-torchrun"), "--image=distrain/tensorflow:0.1.0", "--"]

    done = subprocess.run(
        [*script, "torchrun", "--no-python", "python3"],
        env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr == (
        "distrain: image.repository: the image distrain/tensorflow:0.1.0 has no torchrun, which starts the ranks of an "
        "elastic PyTorchJob; use an image with PyTorch, set job.elastic to false, or choose another job.kind\n"
    )


def test_step_of_an_earlier_stop_is_not_the_last_ones(bench: Bench) -> None:
    line = "stopped at step 7 (56 samples) after another job asked for the run; resumes there"
    process = bench.start(f"trap 'exit 1' TERM; echo '{line}'; echo training; while :; do sleep 0.05; done")
    follow(process, "training")

    process.terminate()

    assert process.wait(timeout=300) == 143
    assert bench.cause == "distrain: stopped by SIGTERM"


def test_step_of_an_earlier_stop_that_nobody_reads_yet_is_not_the_last_ones(bench: Bench) -> None:
    # Nobody reads the pod's log here, so the pipe is full and the script blocks while it writes a line. SIGTERM arrives
    # before the script has read the program's next line. `cat` writes the two lines of the file `next` at once, so
    # the script also reads them at once.
    lines = "printf '%060000d\\n' 1; printf 'stopped at step 7 (56 samples)\\n%060000d\\n' 1 >next; sleep 1; cat next"
    process = bench.start(f"trap 'touch told; exit 1' TERM; {lines}; touch written; while :; do sleep 0.05; done")
    wait_until("both are written", (bench.folder / "written").exists, seconds=60)
    # The first long line leaves less than 6,000 bytes of the pipe free. The script has begun to write the second one.
    wait_until("the script is blocked", lambda: unread_bytes(process) > 61_000, seconds=60)

    process.terminate()
    # The script passes SIGTERM on while it is blocked. Only then may the test read the output.
    wait_until("the program is told to stop", (bench.folder / "told").exists, seconds=60)
    process.communicate(timeout=300)

    assert bench.cause == "distrain: stopped by SIGTERM"


def unread_bytes(process: subprocess.Popen[str]) -> int:
    """Return the number of bytes that the process has written to its output and that nobody has read."""
    assert process.stdout is not None
    count = array.array("i", [0])
    fcntl.ioctl(process.stdout, termios.FIONREAD, count)
    return count[0]


def test_pod_that_alone_cannot_reach_the_storage_lets_the_others_go_on(bench: Bench) -> None:
    cause = "run1-worker-2: s3.secretName: http://minio:9000 refuses the keys of this Secret"
    process = bench.start(f"echo distrain: {cause}; {fails(5)}; {FOR_EVER}", "--max-restarts=9")

    follow(process, f"{cause}; the other pods go on without this pod until it is created again")

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.terminate()
    assert process.wait(timeout=300) == 143


def test_lost_torchrun_is_started_again(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 2 && exit 0; kill -9 $$", "--max-restarts=1")

    assert code == 0
    assert "starting again (restart 1 of 1 in 3600 s): sh was killed by signal 9, as when memory runs out" in output


def test_meeting_point_without_an_address_is_waited_for(bench: Bench) -> None:
    process = bench.start("echo training", PET_RDZV_ENDPOINT="worker-0.invalid:23456")
    handles_sigterm = partial(signal_masks.contains, "SigCgt", signal.SIGTERM, process.pid)
    wait_until("the script has started", handles_sigterm, seconds=60)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.terminate()
    assert process.wait(timeout=300) == 143


def test_meeting_point_whose_torchrun_has_yet_to_start_is_not_waited_for(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    process = bench.start("echo training", PET_RDZV_ENDPOINT=f"127.0.0.1:{port}")

    follow(process, "training")
    assert process.wait(timeout=300) == 0
