"""Test the lab's fake GPUs: kubelet allocates them like real GPUs, and a container can recognize them as fake."""

from __future__ import annotations

from pathlib import Path

from lab.paths import CHART
from tests.cluster.testbed import Namespace, settings
from tests.cluster.training import MXNET

RUN = {
    **MXNET,
    "workers.replicas": 2,
    "workers.gpus": 1,
    "workers.shm": "64Mi",
    "trainer.model": "mnist",
    "trainer.batchSize": 2,
    "trainer.steps": 4,
    "trainer.precision": "fp32",
}


def test_run_on_gpus_that_the_node_pretends_to_have_trains_on_the_cpu_and_says_so(
    namespace: Namespace, helm4: Path
) -> None:
    installed = namespace.helm(helm4, "install", "run1", str(CHART), *settings(RUN))

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(seconds=300) == "Succeeded", namespace.story()
    log = namespace.launcher_log()
    assert log.count("workers.gpus: this node only pretends to have GPUs; training on the CPU\n") == 1
    assert "total images/sec:" in log
