"""Test an MPIJob v1 that is rescaled during the training, and that then loses a rank.

Its launcher starts processes on the workers with kubectl.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lab.cluster import client, faults
from lab.cluster.operators import Operators
from tests.cluster.runs_of_kinds import KINDS, assert_live, install
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    head,
    live_pod,
    remove_checkpoints,
    wait_for_checkpoint,
    wait_for_restart,
)

OPERATORS = Operators(mpijob="v1")
# `restricted` refuses the init container with which the operator copies kubectl into the launcher's pod.
POD_SECURITY = "baseline"
KIND = KINDS["mpijob"]
SECONDS = 300


@pytest.fixture
def run(namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None) -> Namespace:
    """Start a run of two workers, and wait for a checkpoint."""
    remove_checkpoints(namespace)
    install(namespace, helm4, KIND, on_s3)
    wait_for_checkpoint(namespace, seconds=SECONDS)
    return namespace


def test_killed_rank_is_made_good(run: Namespace) -> None:
    before = head(run)
    assert before

    faults.send(signal.SIGKILL, live_pod(run, "worker", 1)["metadata"]["uid"], "distrain_trainer")

    wait_for_restart(run, before)


@pytest.mark.full
def test_deleted_worker_is_made_good(run: Namespace) -> None:
    before = head(run)
    assert before

    client.kubectl("-n", run.name, "delete", "pod", live_pod(run, "worker", 1)["metadata"]["name"], "--wait=false")

    wait_for_restart(run, before)


@pytest.mark.full
def test_job_goes_on_at_each_new_size_and_loses_no_step(run: Namespace, helm4: Path, on_s3: list[str]) -> None:
    assert_live(run, helm4, KIND, on_s3, (3, 1), seconds=SECONDS)
