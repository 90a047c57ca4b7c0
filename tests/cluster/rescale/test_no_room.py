"""Test a rescale to more workers than the lab's GPUs allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.training import GROWING, head, rescale, upgrade, wait_for_checkpoint, wait_for_step, workers


@pytest.mark.full
def test_run_that_grows_to_more_than_fits_goes_on_and_says_what_it_waits_for(
    namespace: Namespace, helm4: Path, on_s3: list[str]
) -> None:
    upgrade(namespace, helm4, on_s3, {"workers.gpus": 1, "workers.replicas": 2})
    before = wait_for_checkpoint(namespace)

    refused = namespace.distrain("rescale", "run1", "--workers", "9", "--yes")
    upgrade(namespace, helm4, on_s3, {"workers.gpus": 1, "workers.replicas": 9})
    waiting = "distrain-launch: waiting for 1 of 7 new workers, training goes on with 2: "
    wait_until("its words", lambda: waiting in namespace.launcher_log(), seconds=GROWING, pause=1)

    assert refused.returncode != 0
    assert "9 workers" in refused.stderr
    after = wait_for_checkpoint(namespace, head(namespace))
    assert after.generation == before.generation
    rescale(namespace, 3)
    wait_for_step(namespace, ranks=3)
    wait_until("3 workers", lambda: len(workers(namespace)) == 3)
