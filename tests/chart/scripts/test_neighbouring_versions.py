"""Test released scripts with current scripts: the old ones in the launcher, the new ones in the worker, or vice versa.

When a user upgrades the chart, the scripts of a running job are replaced in place. Programs that are running keep the
old scripts, but a recreated pod starts with the new scripts. So the old scripts and the new scripts must work together.

The folder `previous` contains the scripts of the last release. After a release, replace the files in the folder: cp
charts/distrain/files/* tests/chart/scripts/previous/
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chart.scripts import pods
from tests.chart.scripts.launching import cause, follow, launch
from tests.chart.scripts.pods import SCRIPTS, Pod, Running, wait_for

pytestmark = pytest.mark.skipif(not pods.IS_ROOT, reason="needs root, for a process namespace")

PREVIOUS = Path(__file__).parent / "previous"
VERSIONS = {"old": PREVIOUS, "new": SCRIPTS}


def tried_with(launcher: str, worker: str) -> pytest.MarkDecorator:
    """Run a test with one version of the scripts in the launcher and another in the worker, as after an upgrade.

    In the full matrix, the test also runs with the two versions swapped, as after a rollback.
    """
    rollback = pytest.param(worker, launcher, marks=pytest.mark.full)
    return pytest.mark.parametrize(("launcher", "worker"), [(launcher, worker), rollback])


HOSTFILE = "127.0.0.2 slots=1\n"
# This rank stops when it receives SIGTERM, and finishes when the test creates the file `finish`.
RANK = """
trap 'echo saved; exit 143' TERM
echo "training, environment: $FROM_POD"
while ! test -e {folder}/finish; do sleep 0.05; done
"""
# TRAINING occurs in a rank's output, but not in the line in which the launcher prints its command.
TRAINING = "training, environment: the worker's"


@dataclass
class Versions:
    """The launcher's pod and the worker's pod, which share an SSH key.

    The scripts of the two pods may have different versions.
    """

    launcher_pod: Pod
    worker_pod: Pod

    def put(self, pod: Pod, version: str) -> None:
        for script in Path(pod.script("")).iterdir():
            script.unlink()
        for script in VERSIONS[version].glob("distrain*"):
            shutil.copy(script, pod.script(""))

    def start_worker(self, version: str) -> Running:
        self.put(self.worker_pod, version)
        script = self.worker_pod.script("distrain-worker")
        worker = self.worker_pod.start([script, *self.worker_pod.script_options()], FROM_POD="the worker's")
        wait_for(lambda: pods.is_listening(self.worker_pod.port))
        return worker

    def start_launcher(self, version: str, *options: str, program: Sequence[str] = ()) -> Running:
        self.put(self.launcher_pod, version)
        own = program or ["sh", "-c", RANK.format(folder=self.launcher_pod.folder)]
        return launch(self.launcher_pod, "--bind-to", "none", "--", *own, hostfile=HOSTFILE, options=options)

    def finish(self, launcher: Running) -> tuple[int, str]:
        (self.launcher_pod.folder / "finish").touch()
        return launcher.end()


@pytest.fixture
def versions() -> Iterator[Versions]:
    with contextlib.ExitStack() as stack:
        worker_pod, other = stack.enter_context(pods.make_pod()), stack.enter_context(pods.make_pod())
        for file in worker_pod.key.parent.iterdir():
            shutil.copy(file, other.key.parent / file.name)
        yield Versions(Pod(other.folder, worker_pod.port), worker_pod)


@tried_with(launcher="new", worker="old")
def test_ranks_run_and_workers_end_with_the_outcome(versions: Versions, launcher: str, worker: str) -> None:
    at_work = versions.start_worker(worker)
    running = versions.start_launcher(launcher, "--end-workers")
    follow(running.process, TRAINING)

    code, output = versions.finish(running)

    assert code == 0, output
    assert at_work.end()[0] == 0


@tried_with(launcher="old", worker="new")
def test_launcher_stops_the_ranks_and_the_next_version_goes_on(versions: Versions, launcher: str, worker: str) -> None:
    at_work = versions.start_worker(worker)
    running = versions.start_launcher(launcher, "--keep-outcome")
    follow(running.process, TRAINING)

    running.terminate()
    code, output = running.end()
    successor = versions.start_launcher(worker, "--keep-outcome")

    assert (code, "\nsaved\n" in output) == (143, True), output
    follow(successor.process, TRAINING)
    assert versions.finish(successor)[0] == 0
    at_work.kill()


@tried_with(launcher="old", worker="new")
def test_worker_that_is_recreated_in_another_version_joins_again(
    versions: Versions, launcher: str, worker: str
) -> None:
    leaving = versions.start_worker(launcher)
    running = versions.start_launcher(launcher, "--rescale=live", "--max-restarts=1")
    follow(running.process, TRAINING)

    leaving.terminate()
    follow(running.process, "saved")
    assert leaving.end()[0] == 143
    at_work = versions.start_worker(worker)

    follow(running.process, TRAINING)
    code, output = versions.finish(running)
    assert (code, "starting again" in output) == (0, False), output
    at_work.kill()


@tried_with(launcher="old", worker="new")
def test_failure_that_one_version_has_kept_ends_the_next_ones_launcher(
    versions: Versions, launcher: str, worker: str
) -> None:
    at_work = versions.start_worker(worker)
    fails = ["sh", "-c", "echo distrain: no room; exit 5"]
    first, _ = versions.start_launcher(launcher, "--keep-outcome", "--max-restarts=1", program=fails).end()

    second, output = versions.start_launcher(worker, "--keep-outcome", program=["echo", "ran again"]).end()

    assert first == second == 5
    assert "ran again" not in output
    assert cause(versions.launcher_pod) == "distrain: no room (the first of 2 failures within 3600 s)"
    at_work.kill()


@tried_with(launcher="old", worker="new")
def test_launcher_of_one_version_that_is_lost_is_no_failure_for_the_next(
    versions: Versions, launcher: str, worker: str
) -> None:
    at_work = versions.start_worker(launcher)
    lost = versions.start_launcher(launcher, "--end-workers", "--max-restarts=0")
    follow(lost.process, TRAINING)

    lost.kill()
    successor = versions.start_launcher(worker, "--end-workers", "--max-restarts=0")

    follow(successor.process, TRAINING)
    assert versions.finish(successor)[0] == 0
    assert at_work.end()[0] == 0


@tried_with(launcher="new", worker="old")
def test_worker_whose_scripts_change_in_place_takes_ranks_in(versions: Versions, launcher: str, worker: str) -> None:
    # sshd starts the script again for every command. After the change, sshd starts the new script, which reads the
    # environment file written by the old script.
    at_work = versions.start_worker(worker)
    versions.put(versions.worker_pod, launcher)

    running = versions.start_launcher(launcher, "--end-workers")
    follow(running.process, TRAINING)

    assert versions.finish(running)[0] == 0
    assert at_work.end()[0] == 0
