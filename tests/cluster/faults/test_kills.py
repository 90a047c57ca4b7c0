"""Test that a run resumes from its last checkpoint after a process or connection is killed, paused or cut off."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from lab.cluster import client, faults
from lab.errors import LabError
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    MXNET,
    TENSORFLOW,
    Say,
    head,
    live_pod,
    remove_checkpoints,
    seconds_to_step,
    upgrade,
    wait_for_checkpoint,
    wait_for_restart,
    wait_for_timed_steps,
)
from tests.matrix import one_of

TRAINER = "distrain_trainer"
# The launcher notices a cut network after half a minute. The cut must last longer than that, so that the ranks are
# started again while the network is still cut.
SECONDS_CUT = 45


@pytest.fixture(scope="module", params=one_of([MXNET, TENSORFLOW]), ids=["mxnet", "tensorflow"])
def run(
    module_namespace: Namespace, helm4: Path, on_s3: list[str], request: pytest.FixtureRequest
) -> Iterator[Namespace]:
    """Start a run of two workers, and wait for a checkpoint. Each test injects one fault into this run."""
    more = {"workers.replicas": 2, "rescale.lostWorkerTimeout": 10}
    upgrade(module_namespace, helm4, on_s3, {**request.param, **more})
    wait_for_checkpoint(module_namespace)
    yield module_namespace
    module_namespace.helm(helm4, "uninstall", "run1", "--wait")
    remove_checkpoints(module_namespace)


GoesOn = Callable[..., None]


def state(run: Namespace) -> str | None:
    found = head(run)
    return found.state if found else None


@pytest.fixture
def goes_on(run: Namespace, request: pytest.FixtureRequest, say: Say) -> GoesOn:
    """Return a function that asserts that the run has saved further checkpoints since the test's start.

    With `starts_again`, also assert that the run has restarted.
    """
    before, since = head(run), datetime.now(timezone.utc)
    assert before

    def hold(*, starts_again: bool = True) -> None:
        if starts_again:
            wait_for_restart(run, before)
            say(f"mpijob: {request.node.name} | {seconds_to_step(run, since):.1f} s to the next step")
        else:
            wait_for_checkpoint(run, wait_for_checkpoint(run, before))
        # When the lost worker returns, the launcher stops the ranks once more. Wait until the ranks train again.
        wait_until("ranks that train", lambda: state(run) == "training", pause=0.5)
        found = head(run)
        assert found
        assert (found.generation > before.generation) == starts_again

    return hold


@pytest.mark.parametrize(
    ("role", "words"),
    [
        pytest.param("worker", (TRAINER,), id="rank"),
        pytest.param("launcher", ("distrain-launch",), id="launcher"),
        pytest.param("worker", ("sshd", "-D"), id="sshd", marks=pytest.mark.full),
        pytest.param("launcher", ("mpirun",), id="mpirun", marks=pytest.mark.full),
    ],
)
def test_killed_process_is_made_good(run: Namespace, goes_on: GoesOn, role: str, words: tuple[str, ...]) -> None:
    faults.send(signal.SIGKILL, live_pod(run, role)["metadata"]["uid"], *words)

    goes_on(starts_again=words[0] != "sshd")


@pytest.mark.parametrize("role", one_of(["worker", "launcher"]))
def test_deleted_pod_is_made_good(run: Namespace, goes_on: GoesOn, role: str) -> None:
    client.kubectl("-n", run.name, "delete", "pod", live_pod(run, role)["metadata"]["name"], "--wait=false")

    goes_on()


def test_hung_rank_is_made_good(run: Namespace, goes_on: GoesOn) -> None:
    wait_for_timed_steps(run)

    with faults.halted(live_pod(run, "worker", 1)["metadata"]["uid"], TRAINER):
        goes_on()


# In `make test`, tests/chart/scripts/launch/test_live_run.py cuts a worker's network without a cluster, so this test
# runs only in the full matrix.
@pytest.mark.full
def test_cut_network_between_workers_is_made_good(run: Namespace, goes_on: GoesOn) -> None:
    one, other = live_pod(run, "worker", 0), live_pod(run, "worker", 1)

    with faults.cut(one["metadata"]["uid"], other["status"]["podIP"]), contextlib.suppress(LabError):
        wait_for_checkpoint(run, head(run), seconds=SECONDS_CUT)
    goes_on()


# This test restarts kubelet or containerd, which every pod of the lab needs. So it runs only in the full matrix, in
# which no other test uses the lab at the same time.
@pytest.mark.full
@pytest.mark.parametrize("component", ["kubelet", "containerd"])
def test_restarted_component_disturbs_nothing(goes_on: GoesOn, component: str) -> None:
    faults.restart(component)

    goes_on(starts_again=False)


@pytest.mark.full
def test_restarted_operator_disturbs_nothing(goes_on: GoesOn) -> None:
    client.kubectl("-n", "mpi-operator", "rollout", "restart", "deployment")
    client.kubectl("-n", "mpi-operator", "rollout", "status", "deployment", "--timeout=120s")

    goes_on(starts_again=False)
