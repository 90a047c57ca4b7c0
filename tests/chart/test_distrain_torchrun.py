"""distrain-torchrun as a real process: what takes torchrun's place logs of its ranks as torchrun does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chart.launching import follow
from tests.chart.pods import SCRIPTS
from tests.chart.supervising import COUNT, Bench

# torchrun's own line of 2.9, and how older ones begin theirs.
FAILED = "E1122 03:43:52.125000 8 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: {}) local_rank: 0 (pid: 12) of binary: /opt/venv/bin/python3"  # noqa: E501
OLDER = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {}) local_rank: 0 (pid: 9) of binary: /usr/bin/python3"  # noqa: E501
FOR_EVER = "trap 'exit 1' TERM; while :; do sleep 0.05; done"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "distrain-torchrun")


def fails(*codes: int, line: str = FAILED) -> str:
    """A torchrun whose ranks fail with these exit codes, one after the other."""
    return "; ".join(f"echo '{line.format(code)}'" for code in codes)


@pytest.mark.parametrize("line", [FAILED, OLDER])
def test_each_failure_of_a_rank_counts_though_torchrun_goes_on(bench: Bench, line: str) -> None:
    program = f"echo distrain: out of memory; {fails(1, -9, line=line)}; {FOR_EVER}"

    code, output = bench.run(program, "--max-restarts=1")

    assert "starting again (restart 1 of 1 in 3600 s): out of memory" in output
    assert code == 1
    last = "a rank ended with exit code 137; this pod's log says why"
    assert bench.cause == f"distrain: out of memory (the first of 2 failures within 3600 s; the last: {last})"


def test_rank_that_stopped_at_a_step_boundary_does_not_count(bench: Bench) -> None:
    code, output = bench.run(f"{fails(143, 143, 143)}; echo stopped; exit 0", "--max-restarts=0")

    assert code == 0
    assert "starting again" not in output


@pytest.mark.parametrize(("code", "cause"), [(2, "data.uri: no such bucket"), (4, "a newer run has taken over")])
def test_what_another_start_would_not_change_ends_torchrun(bench: Bench, code: int, cause: str) -> None:
    ended, output = bench.run(f"echo distrain: {cause}; {fails(code)}; {FOR_EVER}", "--max-restarts=9")

    assert (ended, bench.cause) == (code, f"distrain: {cause}")
    assert "starting again" not in output


def test_lost_torchrun_is_started_again(bench: Bench) -> None:
    code, output = bench.run(f"{COUNT}; test $try = 2 && exit 0; kill -9 $$", "--max-restarts=1")

    assert code == 0
    assert "starting again (restart 1 of 1 in 3600 s): sh ended with exit code 137" in output


def test_sigterm_reaches_torchrun_and_is_waited_for(bench: Bench) -> None:
    process = bench.start("trap 'echo saving; exit 1' TERM; echo training; while :; do sleep 0.05; done")
    follow(process, "training")

    process.terminate()

    follow(process, "saving")
    assert process.wait(timeout=5) == 143
    assert bench.cause == "distrain: stopped by SIGTERM"


def test_meeting_point_without_an_address_is_waited_for(bench: Bench) -> None:
    process = bench.start("echo training", PET_RDZV_ENDPOINT="worker-0.invalid:23456")

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.terminate()
    assert process.wait(timeout=5) == 143


def test_meeting_point_whose_torchrun_has_yet_to_start_is_not_waited_for(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    process = bench.start("echo training", PET_RDZV_ENDPOINT=f"127.0.0.1:{port}")

    follow(process, "training")
    assert process.wait(timeout=5) == 0


def test_killed_supervisor_starts_again_in_its_pod(bench: Bench) -> None:
    program = "echo $PPID >pid; echo training; while ! test -e finish; do sleep 0.05; done"
    process = bench.start(f"{COUNT}; test $try = 2 && exit 0; {program}", "--max-restarts=1")
    follow(process, "training")

    os.kill(int((bench.folder / "pid").read_text()), signal.SIGKILL)

    follow(process, "starting again (restart 1 of 1 in 3600 s): signal 9 killed it")
    assert process.wait(timeout=5) == 0
    # What process 1 of a pod would have ended.
    (bench.folder / "finish").touch()


def test_command_line_without_a_program_is_refused() -> None:
    done = subprocess.run([sys.executable, SCRIPTS / "distrain-torchrun"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "needs a program after --" in done.stderr
