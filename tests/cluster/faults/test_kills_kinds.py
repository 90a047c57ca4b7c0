"""Kill, pause or cut off processes and pods of jobs without mpi-operator, and test that all pods continue the run."""

from __future__ import annotations

import contextlib
import functools
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import client, faults
from lab.errors import LabError
from lab.waiting import wait_until
from tests.cluster.runs_of_kinds import KINDS, install
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    Say,
    head,
    live_pod,
    remove_checkpoints,
    seconds_to_step,
    wait_for_checkpoint,
    wait_for_restart,
)

# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"
SECONDS = 300
# The command lines of ranks and parameter servers contain this text. In the pod, the fault hits the youngest process
# whose command line contains this text.
TRAINER = "distrain_trainer"
# In an elastic job, TRAINER also occurs in the command lines of torchrun and of its parent processes. Only the command
# line of a rank contains this longer text.
RANK = "-u -m distrain_trainer"

Fault = functools.partial[Any]


@pytest.fixture(scope="module")
def runs(
    module_namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None
) -> Iterator[Callable[[str], Namespace]]:
    """Start a run of a kind, and wait for a checkpoint.

    All faults of this kind are injected into this run, one after the other.
    """
    installed: list[str] = []

    def run(kind: str) -> Namespace:
        if installed[-1:] != [kind]:
            if installed:
                _end_run(module_namespace, helm4)
            install(module_namespace, helm4, KINDS[kind], on_s3)
            installed.append(kind)
            wait_for_checkpoint(module_namespace, seconds=SECONDS)
        return module_namespace

    yield run
    _end_run(module_namespace, helm4)


def _end_run(namespace: Namespace, helm: Path) -> None:
    namespace.helm(helm, "uninstall", "run1", "--wait")
    client.kubectl("-n", namespace.name, "delete", "pods", "--all", "--grace-period=1", "--wait=false")
    wait_until("the pods' end", lambda: not namespace.get("pods"), pause=0.5)
    remove_checkpoints(namespace)


def _wait_for_process(
    namespace: Namespace, role: str, number: int = 0, word: str = TRAINER, other: str | None = None
) -> None:
    """Wait until the process that the fault shall hit is running in its pod.

    A worker that the previous fault stopped may still be missing.
    """

    def is_there() -> bool:
        with contextlib.suppress(IndexError):
            pods = [live_pod(namespace, role, number), *([live_pod(namespace, other, -1)] if other else [])]
            return all(faults.processes(pod["metadata"]["uid"], word) for pod in pods)
        return False

    wait_until(f"{word} in {role} {number}", is_there, seconds=SECONDS, pause=0.5)


@contextlib.contextmanager
def _killed(namespace: Namespace, role: str, number: int, word: str) -> Iterator[None]:
    faults.send(signal.SIGKILL, live_pod(namespace, role, number)["metadata"]["uid"], word)
    yield


@contextlib.contextmanager
def _deleted(namespace: Namespace, role: str, number: int) -> Iterator[None]:
    name = live_pod(namespace, role, number)["metadata"]["name"]
    client.kubectl("-n", namespace.name, "delete", "pod", name, "--wait=false")
    yield


@contextlib.contextmanager
def _hung(namespace: Namespace, role: str, number: int, word: str) -> Iterator[None]:
    with faults.halted(live_pod(namespace, role, number)["metadata"]["uid"], word):
        yield


@contextlib.contextmanager
def _cut(namespace: Namespace, role: str, other: str) -> Iterator[None]:
    before = head(namespace)
    one, another = live_pod(namespace, role, 0), live_pod(namespace, other, -1)
    with faults.cut(one["metadata"]["uid"], another["status"]["podIP"]), contextlib.suppress(LabError):
        wait_for_checkpoint(namespace, before, seconds=45)
    yield


def killed(role: str, number: int = 0, word: str = TRAINER) -> Fault:
    return functools.partial(_killed, role=role, number=number, word=word)


def deleted(role: str, number: int = 0) -> Fault:
    return functools.partial(_deleted, role=role, number=number)


def hung(role: str, number: int = 0, word: str = TRAINER) -> Fault:
    return functools.partial(_hung, role=role, number=number, word=word)


def cut(role: str, other: str) -> Fault:
    return functools.partial(_cut, role=role, other=other)


FAULTS = {
    "elastic": {
        "rank": killed("worker", 1, RANK),
        "torchrun": killed("worker", 1, "bin/torchrun"),
        # The workers meet at torchrun's rendezvous in worker 0. While worker 0 is down, the other workers cannot
        # continue.
        "torchrun of worker 0": killed("worker", 0, "bin/torchrun"),
        "distrain-torchrun": killed("worker", 1, "distrain-torchrun"),
        "worker deleted": deleted("worker", 1),
        "worker 0 deleted": deleted("worker", 0),
        "hung rank": hung("worker", 1, RANK),
        "cut network": cut("worker", "worker"),
    },
    "plain": {
        "worker deleted": deleted("worker", 1),
        "rank": killed("worker", 1),
        "mpirun": killed("launcher", 0, "mpirun"),
        "launcher deleted": deleted("launcher"),
        "hung rank": hung("worker", 1),
        "cut network": cut("worker", "worker"),
    },
    "mxjob": {
        "scheduler": killed("scheduler"),
        "server": killed("server"),
        "worker": killed("worker", 1),
        "scheduler deleted": deleted("scheduler"),
        "server deleted": deleted("server"),
        "worker deleted": deleted("worker", 1),
        "hung worker": hung("worker", 1),
    },
    "tfjob": {
        "server": killed("server"),
        "chief": killed("chief"),
        "worker": killed("worker", 1),
        "hung worker": hung("worker", 1),
    },
    "master": {
        "rank": killed("worker"),
        "rank 0": killed("master"),
        "master deleted": deleted("master"),
        "worker deleted": deleted("worker"),
        "hung rank": hung("worker"),
        "cut network": cut("master", "worker"),
    },
}
# `make test` tries two kinds: Plain, which has no operator, and the elastic PyTorchJob of training-operator. The full
# matrix tries all kinds and faults.
TRIED = {("plain", "worker deleted"), ("elastic", "rank")}
CASES = [
    pytest.param(kind, fault, id=f"{kind}: {name}", marks=[] if (kind, name) in TRIED else pytest.mark.full)
    for kind, named in FAULTS.items()
    for name, fault in named.items()
]


@pytest.mark.parametrize(("kind", "fault"), CASES)
def test_all_go_on_together_after(
    runs: Callable[[str], Namespace], kind: str, fault: Fault, request: pytest.FixtureRequest, say: Say
) -> None:
    run = runs(kind)
    _wait_for_process(run, **fault.keywords)
    # Wait until the run trains again after the previous fault.
    before = wait_for_checkpoint(run, head(run), seconds=SECONDS)
    since = datetime.now(timezone.utc)

    with fault(run):
        wait_for_restart(run, before)
        say(f"{request.node.callspec.id} | {seconds_to_step(run, since):.1f} s to the next step")


@pytest.mark.full
@pytest.mark.parametrize(("role", "number"), [("chief", 0), ("server", 0), ("worker", 1)])
def test_tfjob_is_failed_by_its_operator_for_a_deleted_pod_and_goes_on_when_installed_again(
    runs: Callable[[str], Namespace], helm4: Path, on_s3: list[str], role: str, number: int
) -> None:
    run = runs("tfjob")
    before = wait_for_checkpoint(run, head(run), seconds=SECONDS)

    with deleted(role, number)(run):
        assert run.wait_for_end("tfjobs", seconds=90) == "Failed"

    run.helm(helm4, "uninstall", "run1", "--wait")
    install(run, helm4, KINDS["tfjob"], on_s3)
    wait_for_restart(run, before)
