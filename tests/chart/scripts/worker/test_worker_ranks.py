"""Test how distrain-worker asks the ranks of its pod to stop, and waits for them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests import signal_masks
from tests.chart.scripts import pods
from tests.chart.scripts.launching import follow
from tests.chart.scripts.pods import Pod, Running, make_pod, wait_for
from tests.chart.scripts.worker.sessions import ssh, ssh_command, start_worker

pytestmark = pytest.mark.skipif(not pods.IS_ROOT, reason="needs root, for a process namespace")

# This rank needs a moment to stop, and prints how many times it was asked to stop. The rank's child process inherits
# MPI's variables.
RANK = """
export OMPI_COMM_WORLD_RANK=0
exec sh -c '
asked=0
trap "asked=\\$((asked + 1)); echo asked \\$asked" TERM
sh -c "trap \\"echo child was asked\\" TERM; while :; do sleep 0.1; done" &
echo started
while test $asked = 0; do sleep 0.1; done
sleep {seconds}
echo stopped after $asked
kill -9 $!
exit 143'
"""
# Like mpirun's daemon, this shell has no rank variable and starts a rank as its child process. The rank stops at once
# when it is asked to stop. The shell ends by itself 2 s later.
DAEMON = """
OMPI_COMM_WORLD_RANK=0 sh -c 'trap "exit 143" TERM; echo started; while :; do sleep 0.1; done'
sleep 2
echo daemon ended by itself
"""


@pytest.fixture
def own_pod() -> Iterator[Pod]:
    with make_pod() as pod:
        yield pod


def start_rank(pod: Pod, script: str) -> subprocess.Popen[str]:
    rank = subprocess.Popen(ssh_command(pod, script), env=pod.environment(), stdout=subprocess.PIPE, text=True)
    follow(rank, "started")
    return rank


def test_sighup_asks_each_rank_once_and_the_pod_stays(own_pod: Pod) -> None:
    worker = start_worker(own_pod)
    rank = start_rank(own_pod, RANK.format(seconds=1))

    for _ in range(3):
        worker.send(signal.SIGHUP)
        wait_for(lambda: not signal_masks.contains("ShdPnd", signal.SIGHUP, worker.script_pid()))

    output, _ = rank.communicate(timeout=300)
    assert (output, rank.returncode) == ("asked 1\nstopped after 1\n", 143)
    assert ssh(own_pod, "echo still here").stdout == b"still here\n"
    worker.kill()


def assert_left_after_its_rank(worker: Running) -> None:
    code, said = worker.end()
    assert code == 143
    assert re.search(r"distrain-worker: rank 0 ended within \d+ s after it was asked to stop\n", said), said


def test_sigterm_gives_the_ranks_time_to_stop(own_pod: Pod) -> None:
    worker = start_worker(own_pod)
    rank = start_rank(own_pod, RANK.format(seconds=1))

    worker.terminate()

    output, _ = rank.communicate(timeout=300)
    assert (output, rank.returncode) == ("asked 1\nstopped after 1\n", 143)
    assert_left_after_its_rank(worker)


def test_sigterm_gives_mpiruns_daemon_time_to_end_after_the_ranks(own_pod: Pod) -> None:
    # The limit is longer than Running.end waits, so the worker must end without waiting for the limit.
    own_pod.change("distrain-worker", "SECONDS_TO_END_WITH_MPIRUN = 3", "SECONDS_TO_END_WITH_MPIRUN = 600")
    worker = start_worker(own_pod)
    daemon = start_rank(own_pod, DAEMON)

    worker.terminate()

    output, _ = daemon.communicate(timeout=300)
    assert (output, daemon.returncode) == ("daemon ended by itself\n", 0)
    assert_left_after_its_rank(worker)


def test_pod_that_is_leaving_takes_no_more_ranks_in(own_pod: Pod) -> None:
    worker = start_worker(own_pod, "--grace=60")
    go = own_pod.folder / "tmp" / "go"
    rank = start_rank(own_pod, RANK.format(seconds=f"0; until test -e {go}; do sleep 0.1; done"))

    worker.terminate()
    follow(rank, "asked 1")

    # Of the grace period of 60 s, the ranks get 50 s.
    wait_for(lambda: not pods.is_listening(own_pod.port), seconds=30)
    assert rank.poll() is None
    assert (own_pod.folder / "tmp" / "distrain-leaving").exists()
    go.touch()
    assert rank.communicate(timeout=300)[0] == "stopped after 1\n"
    worker.end()
    start_worker(own_pod).kill()
    assert not (own_pod.folder / "tmp" / "distrain-leaving").exists()


def test_rank_that_does_not_stop_ends_with_the_grace_period(own_pod: Pod) -> None:
    own_pod.change("distrain-worker", "SECONDS_TO_SPARE = 10", "SECONDS_TO_SPARE = 60")
    worker = start_worker(own_pod, "--grace=61")
    deaf = "export PMIX_RANK=0; exec sh -c \"trap '' TERM; echo started; while :; do sleep 0.1; done\""
    rank = start_rank(own_pod, deaf)

    worker.terminate()

    # Of the grace period of 61 s, the worker reserves SECONDS_TO_SPARE (60 s), so the ranks get 1 s to stop.
    code, output = worker.end(timeout=300)
    assert code == 143
    assert rank.wait(timeout=300) != 0
    ended = re.search(r"distrain-worker: rank 0 was killed (\d+) s after it was asked to stop\n", output)
    assert ended, output
    assert int(ended[1]) < 50


def test_rank_that_was_gone_before_is_not_said_to_end_with_the_pod(own_pod: Pod) -> None:
    worker = start_worker(own_pod)
    earlier = start_rank(own_pod, RANK.format(seconds=0))
    worker.send(signal.SIGHUP)
    earlier.communicate(timeout=300)
    later = start_rank(own_pod, RANK.format(seconds=0))

    worker.terminate()

    later.communicate(timeout=300)
    assert worker.end()[1].count("after it was asked to stop") == 1


def sshd_of(worker: Running) -> int:
    return wait_for(lambda: next((pid for pid in pods.children(worker.script_pid()) if pods.program(pid) == "sshd"), 0))


def test_killed_sshd_is_started_again_and_the_ranks_go_on(own_pod: Pod) -> None:
    worker = start_worker(own_pod)
    rank = start_rank(own_pod, RANK.format(seconds=0))
    killed = sshd_of(worker)

    os.kill(killed, signal.SIGKILL)

    wait_for(lambda: sshd_of(worker) != killed and pods.is_listening(own_pod.port))
    assert ssh(own_pod, "kill -HUP 1").returncode == 0
    assert rank.communicate(timeout=300)[0] == "asked 1\nstopped after 1\n"
    assert "sshd ended (signal 9); started again" in worker.kill()


def has_ended_or_loses_sshd(worker: Running, pid: int) -> bool:
    """Kill all children of process 1, including orphans of a killed sshd. Return whether the worker has ended."""
    for child in pods.children(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return worker.process.poll() is not None


def test_sshd_that_is_killed_again_and_again_ends_the_pod(own_pod: Pod) -> None:
    worker = start_worker(own_pod)
    pid = worker.script_pid()

    wait_for(lambda: has_ended_or_loses_sshd(worker, pid))

    code, output = worker.end()
    assert code == 1
    assert output.count("sshd ended (signal 9); started again") == 10
    assert "distrain: ssh.port: sshd ended (signal 9); its last lines say why" in output
