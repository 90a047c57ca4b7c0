"""Test that distrain-launch waits for a lost worker, and continues without a worker that does not come back."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.chart.scripts.launch.workers import ASKED, BOUNDARY, LIVE, LOSING, TICKING, Workers, address
from tests.chart.scripts.launching import TRAINING, follow, greeting_server
from tests.chart.scripts.pods import load

REFUSED = "s3.secretName: http://minio:9000 refuses the keys of this Secret (InvalidAccessKeyId)"
# With three workers, mpirun starts six ranks. The ranks of the third worker cannot read from the store.
UNFIT = f"""
if test "$2" = 6; then
    echo "distrain: {{}}: {REFUSED}"
    exit 5
fi
{TRAINING}
"""


def test_lost_worker_that_comes_back_is_waited_for(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=10"), program=LOSING)

    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "starting again (restart 1 of 1")
    workers.answer(1)

    assert "->" not in follow(launcher, "training on 4")
    workers.finish(launcher)


@pytest.mark.parametrize(
    ("code", "is_asked", "seconds"),
    [
        pytest.param(1, False, 42, id="after-a-failure"),
        pytest.param(143, True, 3, id="after-a-stop-at-a-step-boundary"),
    ],
)
def test_worker_has_longer_to_come_back_after_a_failure(
    code: int, is_asked: bool, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("distrain-launch")
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    own = ["--rsh=kubexec", LIVE, "--lost-worker-timeout=42", "true"]
    options, program = module.parse([*own, "--", "train"])
    run = module.Run(options, program, SimpleNamespace(unfit={}), module.Restarts(9, 3600), False)
    monkeypatch.setattr(run, "gather", gather := Mock(return_value={}))

    run.decide(module.Ended(code, "a cause", False), is_asked)

    gather.assert_called_once_with(seconds)


def test_run_goes_on_smaller_and_grows_when_the_lost_worker_is_back(workers: Workers) -> None:
    launcher = workers.start(0, 1, 2, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=0.3"), program=LOSING)

    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "going on with 2 of 3 workers, without 127.0.1.2 (connection refused)")
    follow(launcher, "3 -> 2 workers after a failure")
    follow(launcher, "if 127 stays Failed or Unknown, delete it so that it is created again: kubectl delete pod 127")
    follow(launcher, "2 of 3 workers answer: ")
    follow(launcher, "training on 4")
    workers.answer(1)

    follow(launcher, ASKED + "1 new workers answer")
    follow(launcher, f"2 -> 3 workers {BOUNDARY}")
    follow(launcher, "training on 6")
    workers.finish(launcher)


def test_run_grows_while_a_lost_worker_stays_away(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=0.3"), program=LOSING)
    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "training on 2")

    workers.answer(2)
    workers.list(0, 1, 2)

    follow(launcher, f"1 -> 2 workers {BOUNDARY}")
    follow(launcher, "training on 4")
    workers.finish(launcher)


def test_run_goes_on_without_a_new_worker_that_cannot_reach_the_storage(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=3"), program=UNFIT.format(address(2)))
    workers.answer(2)
    workers.list(0, 1, 2)

    said = follow(launcher, "3 -> 2 workers after a failure")
    said += follow(launcher, "training on 4")
    assert f"going on without {address(2)} until its pod is created again" in said
    assert REFUSED in said
    workers.list(0, 1, 2, 3)
    workers.answer(3)
    # Worker 3 joins the run, because it is new and can read the store. Worker 2 still cannot read the store, so it
    # stays out of the run.
    said = follow(launcher, f"2 -> 3 workers {BOUNDARY}")
    assert "starting again" not in said
    (workers.bench.folder / "finish").touch()
    launcher.communicate(timeout=300)


def test_run_of_fixed_size_ends_with_the_worker_that_cannot_reach_the_storage(workers: Workers) -> None:
    code, _ = workers.bench.run(
        f'echo "distrain: {address(0)}: {REFUSED}"; exit 5', "--max-restarts=1", hostfile="localhost slots=2\n"
    )

    assert code == 5
    assert f"{address(0)}: {REFUSED}" in workers.bench.cause


def test_run_shrinks_past_a_lost_worker(workers: Workers) -> None:
    launcher = workers.start(0, 1, 2, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=20"), program=LOSING)
    workers.fall_silent(2)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "starting again")

    workers.list(0, 1)

    follow(launcher, "3 -> 2 workers after a failure")
    workers.finish(launcher)


def test_failure_does_not_wait_for_workers_that_have_never_been_there(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=60"), program=LOSING)
    workers.list(0, 1, 2)
    follow(launcher, "waiting for 1 of 1 new workers")

    (workers.bench.folder / "lost").touch()

    follow(launcher, "2 of 3 workers answer")
    workers.finish(launcher)


def test_worker_whose_sshd_has_ended_is_given_the_time_for_its_last_step(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=0"), program=TICKING)

    workers.fall_silent(1)

    # After 150 ticks, a worker that does not answer would count as lost.
    said = "".join(follow(launcher, "tick") for _ in range(150))
    workers.answer(1)
    assert "no sign of" not in said + workers.finish(launcher)


def test_run_ends_with_the_name_of_the_worker_that_is_lost(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=0"))
    workers.fall_silent(1)

    # Another program now listens on this address, as if another pod had got the pod's address.
    with greeting_server(b"HTTP/1.1 400 Bad Request\r\n\r\n", address(1), workers.bench.port):
        assert launcher.wait(timeout=300) == 1

    lost = rf"distrain: no sign of {re.escape(address(1))} \(what answers is not sshd\) for \d+ s"
    assert re.fullmatch(lost, workers.bench.cause), workers.bench.cause


def test_worker_whose_sshd_is_slow_is_not_lost(workers: Workers) -> None:
    launcher = workers.start(0, options=(LIVE, "--max-restarts=0", "--lost-worker-timeout=0.3"))
    workers.fall_silent(0)

    # The worker accepts connections but sends no greeting. No greeting comes for 6 s, which is much longer than
    # --lost-worker-timeout. The server stays until the launcher has ended, because its end would reset a connection.
    with socket.create_server((address(0), workers.bench.port)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(6)

        assert "no sign of" not in workers.finish(launcher)


def test_run_of_fixed_size_waits_for_all_of_its_workers(workers: Workers) -> None:
    options = ("--rescale=replace", "--max-restarts=1", "--lost-worker-timeout=0")
    launcher = workers.start(0, 1, options=options, program=LOSING)
    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "starting again")

    workers.answer(1)

    assert "->" not in follow(launcher, "training on 4")
    workers.finish(launcher)
