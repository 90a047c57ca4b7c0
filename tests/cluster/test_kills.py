"""Whatever is killed, halted or cut off, the run goes on from its last checkpoint, seen from outside."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import client, faults
from lab.errors import LabError
from tests.cluster.testbed import Namespace
from tests.cluster.training import Head, head, live_pod, upgrade, wait_for_checkpoint

TRAINER = "distrain_trainer"
# Until it has been noticed, which takes half a minute, and the next start meets it too.
SECONDS_CUT = 45


@pytest.fixture(scope="module")
def run(module_namespace: Namespace, helm4: Path, on_s3: list[str]) -> Iterator[Namespace]:
    """A run of two workers that has a checkpoint; each test does something to it."""
    upgrade(module_namespace, helm4, on_s3, {"workers.replicas": 2, "rescale.lostWorkerTimeout": 10})
    wait_for_checkpoint(module_namespace)
    yield module_namespace
    module_namespace.helm(helm4, "uninstall", "run1", "--wait")


def _goes_on(namespace: Namespace, before: Head, *, starts_again: bool = True) -> None:
    """Hold that the run has saved more than before, twice, and lost nothing that was saved."""
    once = wait_for_checkpoint(namespace, before)
    twice = wait_for_checkpoint(namespace, once)
    assert (twice.generation > before.generation) == starts_again
    assert twice.state == "training"


def _before(namespace: Namespace) -> Head:
    found = head(namespace)
    assert found
    return found


@pytest.mark.parametrize(
    ("role", "words"),
    [
        pytest.param("worker", (TRAINER,), id="rank"),
        pytest.param("worker", ("sshd", "-D"), id="sshd"),
        pytest.param("launcher", ("mpirun",), id="mpirun"),
        pytest.param("launcher", ("distrain-launch",), id="launcher"),
    ],
)
def test_killed_process_is_made_good(run: Namespace, role: str, words: tuple[str, ...]) -> None:
    before = _before(run)

    faults.send(signal.SIGKILL, live_pod(run, role)["metadata"]["uid"], *words)

    _goes_on(run, before, starts_again=words[0] != "sshd")


@pytest.mark.parametrize("role", ["worker", "launcher"])
def test_deleted_pod_is_made_good(run: Namespace, role: str) -> None:
    before = _before(run)

    client.kubectl("-n", run.name, "delete", "pod", live_pod(run, role)["metadata"]["name"], "--wait=false")

    _goes_on(run, before)


def test_hung_rank_is_made_good(run: Namespace) -> None:
    before = _before(run)

    with faults.halted(live_pod(run, "worker", 1)["metadata"]["uid"], TRAINER):
        _goes_on(run, before)


def test_cut_network_between_workers_is_made_good(run: Namespace) -> None:
    before = _before(run)
    one, other = live_pod(run, "worker", 0), live_pod(run, "worker", 1)

    with faults.cut(one["metadata"]["uid"], other["status"]["podIP"]), contextlib.suppress(LabError):
        wait_for_checkpoint(run, before, seconds=SECONDS_CUT)
    _goes_on(run, before)


# With the whole matrix, in which nothing else uses the lab meanwhile.
@pytest.mark.full
@pytest.mark.parametrize("component", ["kubelet", "containerd"])
def test_restarted_component_disturbs_nothing(run: Namespace, component: str) -> None:
    before = _before(run)

    faults.restart(component)

    _goes_on(run, before, starts_again=False)


@pytest.mark.full
def test_restarted_operator_disturbs_nothing(run: Namespace) -> None:
    before = _before(run)

    client.kubectl("-n", "mpi-operator", "rollout", "restart", "deployment")
    client.kubectl("-n", "mpi-operator", "rollout", "status", "deployment", "--timeout=120s")

    _goes_on(run, before, starts_again=False)
