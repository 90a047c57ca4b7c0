"""Test that a user's own program under distrain-launch grows, shrinks and survives kills, with real mpirun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.scripts import pods
from tests.chart.scripts.launching import follow
from tests.chart.scripts.network import Network, make_network
from tests.chart.scripts.pods import Running, wait_for
from tests.matrix import one_of

pytestmark = pytest.mark.skipif(not pods.IS_ROOT, reason="needs root, for namespaces")

# SHORTER replaces waiting times in the scripts by shorter ones.
SHORTER = [
    ("distrain_watch.py", "SECONDS_BETWEEN_CHECKS = 10", 1),
    ("distrain_watch.py", "SECONDS_OF_SILENCE = 30", 5),
]
# The program does not use distrain's code. Each rank waits until all ranks have started, and then counts steps. When a
# rank receives SIGTERM, all ranks stop at the same step and save their state. The next start resumes from that state.
PROGRAM = """
import os, pathlib, signal, sys, time
folder, rank, size = pathlib.Path(sys.argv[1]), os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
stop, state = folder / ("stop." + os.environ["PMIX_NAMESPACE"]), folder / "state"
signal.signal(signal.SIGTERM, lambda *_: stop.touch())
step = int(state.read_text()) if state.exists() else 0
(folder / (stop.name + ".rank." + rank)).touch()
while len(list(folder.glob(stop.name + ".rank.*"))) < int(size):
    time.sleep(0.1)
while not (folder / "finish").exists():
    if rank == "0":
        if stop.exists():
            state.write_text(str(step))
            (folder / (stop.name + ".saved")).touch()
        else:
            step += 1
            print("step", step, "on", size, flush=True)
    if (folder / (stop.name + ".saved")).exists():
        sys.exit(143)
    time.sleep(0.1)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    with make_network(workers=3) as network:
        yield network


def start(network: Network, *numbers: int) -> Running:
    """Start the run on these workers, and wait until it trains the model."""
    folder = network.pod.folder
    (folder / "program.py").write_text(PROGRAM)
    for name, line, seconds in SHORTER:
        script = Path(network.pod.script(name))
        script.write_text(script.read_text().replace(f"{line}\n", f"{line.partition(' = ')[0]} = {seconds}\n"))
    for number in numbers:
        if number not in network.workers:
            network.start_worker(number)
    network.list(*numbers)
    options = [*network.pod.script_options(), f"--hostfile={folder}/hostfile", "--rescale=live", "--max-restarts=3"]
    program = ["python3", f"{folder}/program.py", f"{folder}/tmp"]
    mpirun = ["mpirun", "--bind-to", "none", "--", *program]
    launcher = network.start(-1, [network.pod.script("distrain-launch"), *options, "--lost-worker-timeout=10", *mpirun])
    follow(launcher.process, f"on {len(numbers)}")
    return launcher


def finish(network: Network, launcher: Running) -> str:
    (network.pod.folder / "tmp" / "finish").touch()
    code, output = launcher.end()
    assert code == 0, output
    return output


def steps(said: str) -> list[int]:
    return [int(step) for step in re.findall(r"step (\d+) on", said)]


def test_run_grows_and_shrinks_without_losing_a_step(network: Network) -> None:
    launcher = start(network, 0)

    network.list(0, 1, 2)
    network.start_worker(1)
    network.start_worker(2)
    said = follow(launcher.process, "on 3")
    # Kubernetes shrinks a job like this: the leaving workers receive SIGTERM, and the hostfile changes later.
    for number in (1, 2):
        network.workers[number].terminate()
    said += follow(launcher.process, "3 -> 1 workers after the ranks stopped at a step boundary")
    network.list(0)
    said += follow(launcher.process, "on 1")

    assert "1 -> 3 workers after the ranks stopped at a step boundary" in said
    first, *_, last = seen = steps(said)
    assert seen == list(range(first, last + 1))
    assert {network.workers[number].end()[0] for number in (1, 2)} == {143}
    assert "starting again" not in finish(network, launcher)


# test_neighbouring_versions.py also tests this behaviour, with two pods.
@pytest.mark.full
def test_sigterm_saves_and_the_next_launcher_goes_on(network: Network) -> None:
    launcher = start(network, 0, 1)

    launcher.terminate()
    code, output = launcher.end()

    assert code == 143, output
    next_launcher = start(network, 0, 1)
    saved = int((network.pod.folder / "tmp" / "state").read_text())
    assert steps(follow(next_launcher.process, "on 2"))[0] > saved
    finish(network, next_launcher)


@pytest.mark.parametrize("victim", one_of(["python3", "orted"]))
def test_killed_part_of_a_worker_is_made_up_for(network: Network, victim: str) -> None:
    launcher = start(network, 0, 1)

    os.kill(process_of(network.workers[1], victim), signal.SIGKILL)

    follow(launcher.process, "starting again (restart 1 of 3 in 3600 s): ")
    assert "->" not in follow(launcher.process, "on 2")
    finish(network, launcher)


# test_launch_restarts.py also kills mpirun and the launcher, with a fake mpirun.
@pytest.mark.full
def test_killed_mpirun_is_made_up_for(network: Network) -> None:
    launcher = start(network, 0, 1)

    os.kill(process_of(launcher, "mpirun"), signal.SIGKILL)

    follow(launcher.process, "starting again (restart 1 of 3 in 3600 s): ")
    follow(launcher.process, "on 2")
    finish(network, launcher)


@pytest.mark.full
def test_killed_launcher_is_made_up_for(network: Network) -> None:
    launcher = start(network, 0, 1)
    (child,) = pods.children(launcher.script_pid())

    os.kill(child, signal.SIGKILL)

    follow(launcher.process, "starting again (restart 1 of 3 in 3600 s): signal 9 killed it")
    follow(launcher.process, "on 2")
    finish(network, launcher)


# test_worker_ranks.py kills sshd, too.
@pytest.mark.full
def test_killed_sshd_stops_no_step(network: Network) -> None:
    launcher = start(network, 0, 1)
    sshd = process_of(network.workers[1], "sshd")

    os.kill(sshd, signal.SIGKILL)

    wait_for(lambda: network.is_listening(1) and process_of(network.workers[1], "sshd") != sshd)
    assert "starting again" not in finish(network, launcher)


# test_neighbouring_versions.py also tests this behaviour, with two pods.
@pytest.mark.full
def test_worker_that_is_recreated_joins_again(network: Network) -> None:
    launcher = start(network, 0, 1)

    network.workers[1].kill()
    follow(launcher.process, "starting again (restart 1 of 3 in 3600 s): ")
    network.start_worker(1)

    assert "->" not in follow(launcher.process, "on 2")
    finish(network, launcher)


def test_cut_network_ends_the_wait(network: Network) -> None:
    launcher = start(network, 0, 1)

    subprocess.run(["ip", "-n", network.namespace(1), "link", "set", "eth0", "down"], check=True)

    follow(launcher.process, f"no sign of {network.address(1)}")
    follow(launcher.process, "starting again (restart 1 of 3 in 3600 s): no sign of ")
    follow(launcher.process, "2 -> 1 workers after a failure")
    follow(launcher.process, "on 1")
    finish(network, launcher)


def process_of(running: Running, name: str) -> int:
    """Return the first descendant of a script that has this process name."""

    def find() -> int:
        below = [running.script_pid()]
        for pid in below:
            if pods.program(pid) == name and pid != running.script_pid():
                return pid
            below += pods.children(pid)
        return 0

    return wait_for(find)
