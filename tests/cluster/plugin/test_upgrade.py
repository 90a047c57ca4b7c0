"""Test on a real cluster how a run is installed, rescaled and removed while it trains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from lab.cluster import client
from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace, settings, without_run1
from tests.cluster.training import MXNET, SLOW, wait_for_step

# The run trains long enough for the tests to upgrade it while it trains.
RUN = settings(
    {
        **MXNET,
        "workers.gpus": 0,
        "trainer.model": "mnist",
        "trainer.batchSize": 8,
        "trainer.steps": 20000,
        "trainer.logEvery": 1,
        **SLOW,
    }
)
KINDS = "all,secrets,configmaps,serviceaccounts,roles,rolebindings,mpijobs,persistentvolumeclaims"
TRIES = 3


def _objects(namespace: Namespace) -> set[str]:
    """Return the namespace's objects."""
    return set(client.kubectl("-n", namespace.name, "get", KINDS, "-o", "name").split())


def test_plan_tells_what_is_lost_and_rescale_goes_on_at_the_new_size(namespace: Namespace) -> None:
    installed = namespace.distrain("install", "run1", *RUN, "--wait", "--timeout", "5m")
    assert installed.returncode == 0, installed.stderr
    assert "images/sec:" in namespace.launcher_log()

    planned = namespace.distrain("upgrade", "run1", "--reuse-values", "--set", "trainer.steps=9", "--dry-run")
    rescaling = ["--workers", "3", "--yes", "--allow-busy", "--wait", "--timeout", "5m"]
    rescaled = namespace.distrain("rescale", "run1", *rescaling)

    assert planned.returncode == 0, planned.stderr
    assert "  replaced  MPIJob run1: ended, then created anew" in planned.stdout
    lost = planned.stdout.splitlines()[-1].split()
    assert (lost[:2], lost[3]) == (["lost", "all"], "steps,")
    assert int(lost[2]) >= 1
    assert rescaled.returncode == 0, rescaled.stderr
    assert '"world_size": 3' in namespace.launcher_log()
    assert sum("-worker-" in name for name in namespace.running_pods()) == 3
    wait_for_step(namespace, ranks=3)


def test_installation_without_an_image_is_uninstalled_again(namespace: Namespace) -> None:
    before = without_run1(_objects(namespace))

    # No registry listens at this address, so pulling the image fails at once.
    image = settings({"image.repository": "127.0.0.1:1/tensorflow"})
    refused = namespace.distrain("install", "run1", *RUN, *image, "--atomic", "--timeout", "5m")

    assert refused.returncode == 4
    assert "image.repository: cannot pull 127.0.0.1:1/tensorflow:" in refused.stderr
    assert refused.stderr.splitlines()[-1] == "distrain: run1: uninstalled again"
    wait_until("the end of what was installed", lambda: _objects(namespace) == before, pause=0.5)


def test_ctrl_c_at_any_moment_of_an_installation_leaves_nothing(namespace: Namespace) -> None:
    before = without_run1(_objects(namespace))
    code, seconds = _interrupted(namespace, after=300)
    assert code == 0

    moments = [seconds * (part + 0.5) / TRIES for part in range(TRIES)]
    codes = [_interrupted(namespace, after=moment)[0] for moment in moments]
    # An installation that ended before the signal exits with 0, and its release is complete. If the machine was busy
    # during the measured installation, even the first signal may come too late.
    while codes[0] == 0 and moments[0] > 0.01:
        moments[0] /= 2
        codes[0], _ = _interrupted(namespace, after=moments[0])

    assert codes[0] == 130
    assert set(codes) <= {0, 130}
    wait_until("the end of what was installed", lambda: _objects(namespace) == before, pause=0.5)


def _interrupted(namespace: Namespace, *, after: float) -> tuple[int, float]:
    """Start an installation.

    `after` seconds after its check has passed, send SIGINT to the installation and its child processes.

    Return the installation's exit code, and the seconds from the end of its check to its exit.
    """
    command = [sys.executable, "-m", "distrain", "install", "run1", *RUN, "--namespace", namespace.name]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin")}
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    process.stderr.readline()
    checked = time.monotonic()
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
    process.communicate()
    seconds = time.monotonic() - checked
    releases = client.kubectl("-n", namespace.name, "get", "secrets", "-l", "owner=helm", "-o", "name")
    assert (releases == "") == (process.returncode != 0)
    if process.returncode == 0:
        subprocess.run(["helm", "uninstall", "run1", "--namespace", namespace.name], check=True, capture_output=True)
    return process.returncode, seconds
