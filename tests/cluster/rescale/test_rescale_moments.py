"""Test a run that is rescaled or loses a worker at an unfavourable moment, for example while it writes a checkpoint."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from lab.cluster import client, faults
from lab.cluster.lifecycle import S3_PORT
from lab.cluster.namespaces import NODE_ADDRESS
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    RESUMED,
    SECONDS_BETWEEN,
    assert_no_step_was_lost,
    head,
    rescale,
    wait_for_step,
    workers,
)

LAUNCHER = "app.kubernetes.io/component=launcher"


@pytest.mark.full
def test_second_rescale_before_the_first_is_done_is_the_one_that_counts(long_run: Namespace) -> None:
    rescale(long_run, 4)
    rescale(long_run, 3)

    wait_for_step(long_run, ranks=3)
    assert_no_step_was_lost(long_run)


def test_evicted_worker_stops_all_at_a_step_boundary_and_comes_back(long_run: Namespace) -> None:
    pods, before = workers(long_run), long_run.launcher_log()

    _evict(long_run, pods[0]["metadata"]["name"])

    wait_until("another start", lambda: bool(RESUMED.search(_launcher_log_since(long_run, before))), pause=1)
    wait_for_step(long_run, ranks=len(pods))
    assert_no_step_was_lost(long_run)
    since = _launcher_log_since(long_run, before)
    # When all ranks have exited with 143, the launcher prints this line instead of mpirun's message about exit codes.
    assert "the ranks stopped at step" in since
    assert "Exit code:" not in since
    assert "starting again (restart" not in since


def _launcher_log_since(namespace: Namespace, before: str) -> str:
    """Return what the launcher has logged after the text `before`."""
    now = namespace.launcher_log()
    assert now.startswith(before), "another launcher has started"
    return now.removeprefix(before)


def _evict(namespace: Namespace, name: str) -> None:
    """Evict a pod, as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace.name}}
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}/eviction"
    client.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


@pytest.mark.full
def test_evicted_launcher_stops_the_ranks_at_a_step_boundary_and_the_next_goes_on(long_run: Namespace) -> None:
    (launcher,) = _launchers(long_run)

    _evict(long_run, launcher.removeprefix("pod/"))

    wait_until("the stop", lambda: _state(long_run) == "stopped", seconds=60)
    stopped = head(long_run)
    wait_until("the next launcher", lambda: launcher not in _launchers(long_run), pause=0.5)
    wait_for_step(long_run, ranks=len(workers(long_run)))
    assert stopped
    assert RESUMED.findall(long_run.launcher_log())[0][1] == str(stopped.samples)


@pytest.mark.full
def test_size_that_is_rolled_back_is_a_rescale(long_run: Namespace, helm4: Path) -> None:
    size = len(workers(long_run))
    rescale(long_run, size + 1)
    wait_for_step(long_run, ranks=size + 1)

    rolled_back = long_run.helm(helm4, "rollback", "run1")

    assert rolled_back.returncode == 0, rolled_back.stderr
    wait_for_step(long_run, ranks=size)
    assert_no_step_was_lost(long_run)


def _launchers(namespace: Namespace) -> list[str]:
    return client.kubectl("-n", namespace.name, "get", "pods", "-l", LAUNCHER, "-o", "name").split()


def _state(namespace: Namespace) -> str:
    found = head(namespace)
    return found.state if found else ""


@pytest.mark.full
def test_rescale_while_a_checkpoint_is_written_loses_no_step(long_run: Namespace) -> None:
    size, first = len(workers(long_run)), workers(long_run)[0]["metadata"]["uid"]

    with faults.cut(first, NODE_ADDRESS, S3_PORT):
        # While the network is cut, no checkpoint can be completed. Wait until the run has begun to write a checkpoint.
        wait_until("an unfinished checkpoint", lambda: _silence(long_run) > 2 * SECONDS_BETWEEN, pause=0.5)
        rescale(long_run, size - 1)
    wait_for_step(long_run, ranks=size - 1)

    assert_no_step_was_lost(long_run)


def _silence(namespace: Namespace) -> float:
    """Return the seconds since the run last wrote its HEAD file."""
    found = head(namespace)
    assert found
    return time.time() - found.heartbeat


@pytest.mark.full
def test_lost_worker_that_is_no_longer_wanted_is_not_waited_for(long_run: Namespace) -> None:
    rescale(long_run, 2)
    wait_for_step(long_run, ranks=2)

    os.kill(faults.processes(workers(long_run)[-1]["metadata"]["uid"], "distrain-worker")[0], signal.SIGKILL)
    rescale(long_run, 1)

    wait_for_step(long_run, ranks=1)
