"""Test what distrain-launch finds out about the launcher before it: whether that one was stopped, or was lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.chart.scripts.launch.workers import LIVE, Workers, address
from tests.chart.scripts.launching import TRAINING, Bench, end_with_children, follow
from tests.chart.scripts.pods import load, wait_for

LOST = "the earlier launcher was lost without SIGTERM, as when memory runs out or a node fails; see launcher.memory"
TOLD_TO_FAIL = "localhost: kill -USR2 1"


def state(bench: Bench) -> Path:
    """Return the file in which the workers keep the launcher's state."""
    return bench.folder / "worker" / "distrain-launcher"


def lose(launcher: subprocess.Popen[str], bench: Bench) -> None:
    """Kill the launcher while mpirun runs, as when its node fails."""
    wait_for(lambda: state(bench).exists() and state(bench).read_text() == "at work")
    end_with_children(launcher)
    launcher.wait()
    # In a pod, mpirun would have ended together with the container. In the test, the file `stop` ends mpirun.
    (bench.folder / "stop").touch()


def stop(launcher: subprocess.Popen[str], _: Bench) -> None:
    """End the launcher as kubelet does if its pod is deleted, evicted or suspended."""
    launcher.terminate()
    assert launcher.wait(timeout=300) == 143


@pytest.mark.parametrize("option", ["--keep-outcome", "--end-workers"])
def test_lost_launcher_is_a_failure(bench: Bench, option: str) -> None:
    launcher = bench.start(TRAINING, "--max-restarts=2", option)
    follow(launcher, "training on 4")
    lose(launcher, bench)

    code, output = bench.run("exit 0", "--max-restarts=2", option)

    assert code == 0, output
    assert f"distrain-launch: starting again (restart 1 of 2 in 3600 s): {LOST}\n" in output


def test_each_lost_launcher_is_counted_until_the_workers_end(bench: Bench) -> None:
    options = ("--max-restarts=1", "--end-workers")
    for _ in range(2):
        launcher = bench.start(TRAINING, *options)
        follow(launcher, "training on 4")
        lose(launcher, bench)

    code, output = bench.run("echo runs", *options)

    assert (code, "runs\n" in output) == (1, False), output
    assert bench.cause == f"distrain: {LOST} (the first of 2 failures within 3600 s)"
    assert bench.told[-1] == TOLD_TO_FAIL


def test_launcher_that_was_stopped_is_no_failure(bench: Bench) -> None:
    options = ("--max-restarts=0", "--end-workers")
    for _ in range(3):
        launcher = bench.start(TRAINING, *options)
        follow(launcher, "training on 4")
        stop(launcher, bench)
        assert state(bench).read_text() == "at rest"

    code, output = bench.run("exit 0", *options)

    assert (code, "starting again" in output) == (0, False), output


def test_launcher_that_is_lost_before_it_starts_mpirun_again_has_counted_the_failure(bench: Bench) -> None:
    # After mpirun has failed, the hostfile also lists 127.0.0.9, where no worker answers.
    mpirun = 'echo "localhost slots=4\n127.0.0.9 slots=1" >hostfile; exit 5'
    launcher = bench.start(mpirun, "--max-restarts=1", "--end-workers")
    follow(launcher, "starting again (restart 1 of 1")
    wait_for(lambda: state(bench).read_text() == "at rest")
    end_with_children(launcher)
    launcher.wait()

    code, output = bench.run("exit 0", "--max-restarts=1", "--end-workers")

    assert (code, LOST in output) == (0, False), output


@pytest.mark.parametrize("end", [lose, stop])
def test_next_launcher_goes_on_without_a_worker_that_was_lost_too(
    workers: Workers, end: Callable[[subprocess.Popen[str], Bench], None]
) -> None:
    options = (LIVE, "--end-workers", "--max-restarts=3", "--lost-worker-timeout=0.3")
    end(workers.start(0, 1, options=options), workers.bench)
    workers.fall_silent(1)

    launcher = workers.bench.start(TRAINING, *options, hostfile=workers.list(0, 1))

    follow(launcher, f"going on with 1 of 2 workers, without {address(1)} (connection refused)")
    follow(launcher, "if 127 stays Failed or Unknown, delete it so that it is created again: kubectl delete pod 127")
    follow(launcher, "training on 2")
    workers.answer(1)
    follow(launcher, "1 -> 2 workers")
    workers.finish(launcher)


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        pytest.param("live", "", id="first-launcher-of-a-live-run"),
        pytest.param("replace", "at work", id="run-of-fixed-size"),
    ],
)
def test_launcher_waits_for_all_workers(workers: Workers, mode: str, kept: str) -> None:
    workers.answer(0)
    state(workers.bench).parent.mkdir()
    state(workers.bench).write_text(kept)
    options = (f"--rescale={mode}", "--keep-outcome", "--lost-worker-timeout=0", "--workers-timeout=0.5")

    code, _ = workers.bench.run("exit 0", *options, hostfile=workers.list(0, 1))

    assert code == 1
    assert workers.bench.cause.startswith("distrain: launcher.workersTimeout: 1 of 2 workers did not answer")


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        pytest.param(["", "at work"], "at work", id="new-worker"),
        pytest.param(["at work", "at rest"], "at rest", id="worker-that-missed-the-stop"),
        pytest.param(["", ""], "", id="workers-of-a-new-run"),
        pytest.param(["at wo"], "", id="half-a-state"),
    ],
)
def test_workers_that_have_kept_different_states(tmp_path: Path, kept: list[str], found: str) -> None:
    (tmp_path / "hostfile").write_text("".join(f"{number} slots=1\n" for number in range(len(kept))))
    way = SimpleNamespace(tries_at_once=1, output=lambda host, _: kept[int(host)])

    assert load("distrain_keepers.py").earlier_state(way, str(tmp_path / "hostfile")) == found


def test_restarts_stay_kept_if_the_disk_of_the_worker_is_full(tmp_path: Path) -> None:
    keepers, program = load("distrain_keepers.py"), load("distrain_program.py")
    hostfile = str(tmp_path / "hostfile")
    Path(hostfile).write_text("0 slots=1\n")
    no_room: list[bool] = []

    def ask(command: str) -> str:
        limits = "ulimit -f 0; trap '' XFSZ; " if no_room else ""
        shell = ["sh", "-c", limits + command]
        return subprocess.run(shell, env={"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False).stdout

    way = SimpleNamespace(tries_at_once=1, output=lambda _, command: ask(command), why_not_run=lambda _, c: ask(c))
    restarts = program.Restarts(9, 3600)
    for cause in ("first", "second"):
        restarts.add(cause)
        keepers.keep_restarts(way, hostfile, restarts)
    keepers.keep_state(way, hostfile, keepers.AT_WORK)
    no_room.append(True)
    restarts.add("third")
    keepers.keep_restarts(way, hostfile, restarts)

    assert keepers.count_in(keepers.earlier_restarts(way, hostfile)) == 2
    # The next launcher counts the failure that was not kept.
    assert keepers.earlier_state(way, hostfile) == keepers.AT_WORK


def test_state_is_kept_through_kubectl_before_mpirun_starts(bench: Bench) -> None:
    agent = bench.put_program("kubexec.sh", f'#!/bin/sh\nTMPDIR="{bench.folder}/worker" sh -c "$2"\n')

    code, output = bench.run("cat worker/distrain-launcher", "--rsh=kubexec", f"--kubexec={agent}", "--keep-outcome")

    assert (code, output.endswith("at work")) == (0, True), output


def test_launcher_that_is_killed_once_too_often_ends_the_workers(bench: Bench) -> None:
    launcher = bench.start(f"echo $PPID >parent; {TRAINING}", "--max-restarts=0", "--end-workers")
    follow(launcher, "training on 4")

    subprocess.run(["kill", "-KILL", (bench.folder / "parent").read_text().strip()], check=True)

    follow(launcher, "distrain: signal 9 killed it, this pod's own process")
    assert launcher.wait(timeout=300) == 1
    assert bench.cause == "distrain: signal 9 killed it, this pod's own process"
    assert TOLD_TO_FAIL in bench.told
    (bench.folder / "stop").touch()


def test_end_of_a_launcher_that_was_killed_is_kept_for_the_next(bench: Bench) -> None:
    options = ("--max-restarts=0", "--keep-outcome")
    bench.run("kill -KILL $PPID", *options)

    code, output = bench.run("echo runs", *options)

    assert (code, "runs\n" in output) == (1, False), output
    assert bench.cause == "distrain: signal 9 killed it, this pod's own process"


def test_killed_launcher_that_cannot_reach_the_workers_still_says_why(bench: Bench) -> None:
    code, output = bench.run("rm id_rsa; kill -KILL $PPID", "--end-workers")

    assert (code, bench.cause) == (1, "distrain: signal 9 killed it, this pod's own process"), output


def test_error_that_no_code_expects_ends_the_workers(bench: Bench) -> None:
    # The first start of mpirun removes mpirun, so the second start raises an error.
    code, output = bench.run('rm "$0"; exit 5', "--max-restarts=3", "--end-workers")

    assert code == 1
    error = f"unexpected FileNotFoundError: [Errno 2] No such file or directory: '{bench.folder}/mpirun'"
    assert bench.cause == f"distrain: {error}; this pod's log says why"
    assert "Traceback (most recent call last):" in output
    assert TOLD_TO_FAIL in bench.told


def test_image_without_mpirun_ends_the_workers(bench: Bench) -> None:
    code, _ = bench.run("", "--end-workers", path_of_mpirun="/no/mpirun")

    assert code == 1
    assert bench.cause.startswith("distrain: image.repository: the image has no /no/mpirun; use one with Open MPI")
    assert bench.told == [TOLD_TO_FAIL]
