"""Whatever is killed of a job that mpi-operator does not run, all of it goes on from the last checkpoint."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import client, faults
from lab.errors import LabError
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    KINDS,
    Head,
    forget,
    head,
    install,
    live_pod,
    wait_for_checkpoint,
    wait_for_restart,
)

# The init container that training-operator adds to a Master/Worker PyTorchJob is refused under `restricted`.
POD_SECURITY = "baseline"
SECONDS = 300
# The youngest process of a pod that has this in its command line: the one that trains, or holds weights.
TRAINER = "distrain_trainer"


@pytest.fixture(scope="module")
def run(
    request: pytest.FixtureRequest, module_namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None
) -> Iterator[Namespace]:
    """A run of this kind that has a checkpoint; each test does something to it."""
    install(module_namespace, helm4, KINDS[request.param], on_s3)
    wait_for_checkpoint(module_namespace, seconds=SECONDS)
    yield module_namespace
    module_namespace.helm(helm4, "uninstall", "run1", "--wait")
    client.kubectl("-n", module_namespace.name, "delete", "pods", "--all", "--grace-period=1", "--wait=false")
    wait_until("the pods' end", lambda: not module_namespace.get("pods"), pause=0.5)
    forget(module_namespace)


def _before(namespace: Namespace) -> Head:
    found = head(namespace)
    assert found
    return found


def _each(cases: list[tuple[str, ...]], *, in_ci: tuple[str, ...] = ()) -> list[object]:
    """Return the cases as parameters; all but the one that CI tries are for the full matrix."""
    marks = {True: (), False: (pytest.mark.full,)}
    return [pytest.param(*case, id="-".join(case[:3]), marks=marks[case == in_ci]) for case in cases]


# The kind, the role, and what tells the process by.
PROCESSES = [
    ("elastic", "worker", "-u -m distrain_trainer"),
    ("elastic", "worker", "bin/torchrun"),
    ("elastic", "worker", "distrain-torchrun"),
    ("plain", "worker", TRAINER),
    ("plain", "launcher", "mpirun"),
    ("plain", "launcher", "distrain-launch"),
    ("mxjob", "scheduler", TRAINER),
    ("mxjob", "server", TRAINER),
    ("mxjob", "worker", TRAINER),
    ("tfjob", "chief", TRAINER),
    ("tfjob", "server", TRAINER),
    ("tfjob", "worker", TRAINER),
    ("master", "master", TRAINER),
    ("master", "worker", TRAINER),
]
PODS = [
    ("elastic", "worker", "0"),
    ("elastic", "worker", "1"),
    ("plain", "worker", "1"),
    ("plain", "launcher", "0"),
    ("mxjob", "scheduler", "0"),
    ("mxjob", "server", "0"),
    ("mxjob", "worker", "1"),
    ("tfjob", "chief", "0"),
    ("tfjob", "server", "0"),
    ("tfjob", "worker", "1"),
    ("master", "master", "0"),
    ("master", "worker", "0"),
]
HUNG = [
    ("elastic", "worker", "1"),
    ("plain", "worker", "1"),
    ("mxjob", "worker", "1"),
    ("tfjob", "worker", "1"),
    ("master", "worker", "0"),
]
CUT = [("elastic", "worker", "worker"), ("plain", "worker", "worker"), ("master", "master", "worker")]


@pytest.mark.parametrize(
    ("run", "role", "word"), _each(PROCESSES, in_ci=("tfjob", "server", TRAINER)), indirect=["run"]
)
def test_killed_process_is_made_good(run: Namespace, role: str, word: str) -> None:
    before = _before(run)

    faults.send(signal.SIGKILL, live_pod(run, role, -1)["metadata"]["uid"], word)

    wait_for_restart(run, before)


# torchrun's meeting point is in worker 0: without it no other torchrun goes on.
@pytest.mark.parametrize(("run", "word"), _each([("elastic", "bin/torchrun")]), indirect=["run"])
def test_killed_meeting_point_is_made_good(run: Namespace, word: str) -> None:
    before = _before(run)

    faults.send(signal.SIGKILL, live_pod(run, "worker", 0)["metadata"]["uid"], word)

    wait_for_restart(run, before)


@pytest.mark.parametrize(("run", "role", "number"), _each(PODS, in_ci=("plain", "worker", "1")), indirect=["run"])
def test_deleted_pod_is_made_good(run: Namespace, role: str, number: str) -> None:
    before = _before(run)

    name = live_pod(run, role, int(number))["metadata"]["name"]
    client.kubectl("-n", run.name, "delete", "pod", name, "--wait=false")

    wait_for_restart(run, before)


@pytest.mark.parametrize(("run", "role", "number"), _each(HUNG), indirect=["run"])
def test_hung_rank_is_made_good(run: Namespace, role: str, number: str) -> None:
    before = _before(run)

    with faults.halted(live_pod(run, role, int(number))["metadata"]["uid"], TRAINER):
        wait_for_restart(run, before)


@pytest.mark.parametrize(("run", "one", "other"), _each(CUT), indirect=["run"])
def test_cut_network_is_made_good(run: Namespace, one: str, other: str) -> None:
    before = _before(run)
    first, second = live_pod(run, one, 0), live_pod(run, other, -1)

    with faults.cut(first["metadata"]["uid"], second["status"]["podIP"]), contextlib.suppress(LabError):
        wait_for_restart(run, before, seconds=45)
    wait_for_restart(run, before)
