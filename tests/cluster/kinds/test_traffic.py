"""Compare the bytes that a pod sends per training step with the plugin's formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.paths import CHART
from tests.cluster.testbed import PROBE_VALUES, SECRET, VALUES, Namespace, settings
from tests.cluster.training import MXNET, SLOW
from tests.matrix import one_of

# For images of 28x28x1 and 10 classes, the layers of the model `mnist` have 320, 18 496, 401 536 and 1 290 parameters
# of 4 bytes.
MODEL_BYTES = 4 * (320 + 18_496 + 401_536 + 1_290)
WITHIN = 0.05
TRAINER = ["--model=mnist", "--data=synthetic", "--batch-size=4", "--steps=70", "--log-every=100"]
SYNTHETIC = {"data.source": "synthetic", "data.uri": "", "output.uri": "", "s3.secretName": SECRET}
# The operator leaves the pods in the cluster after the job's end, so that the test can read their logs.
COMMON = {**PROBE_VALUES, **SYNTHETIC, "workers.gpus": 0, "job.cleanPodPolicy": "None"}
# The tests make Open MPI use a ring, which sends the fewest bytes. By default, Open MPI chooses the algorithm of an
# all-reduce by the size of the data.
RING = {"mpi.mca.coll_tuned_use_dynamic_rules": 1, "mpi.mca.coll_tuned_allreduce_algorithm": 4}


def _per_step(namespace: Namespace, helm: Path, file: str, kind: str, values: dict[str, Any]) -> list[dict[str, float]]:
    """Train on synthetic data, and return the bytes per step that each rank's pod sent and received."""
    namespace.put_probe()
    program = ["python3", "/probe/traffic.py", *TRAINER, *values.pop("arguments")]
    given = settings({**COMMON, **values, "command": program})
    installed = namespace.helm(helm, "install", "run1", str(CHART), "-f", str(VALUES / file), *given)
    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(kind, seconds=180) == "Succeeded", namespace.story()
    return namespace.reports()


@pytest.mark.parametrize("ranks", one_of([3, 2, 4]))
def test_all_reduce_sends_twice_the_model_less_one_share(namespace: Namespace, helm4: Path, ranks: int) -> None:
    # In each cycle, Horovod also sends control messages. With SLOW, a step has few cycles, even on a busy machine.
    values = {**MXNET, **RING, **SLOW, "workers.replicas": ranks, "arguments": ["--framework=mxnet"]}

    sent = [report["tx"] for report in _per_step(namespace, helm4, "mnist.yaml", "mpijobs", values)]

    # In a ring all-reduce of K bytes, each of N ranks sends 2(N-1)K/N bytes in any order of the ranks (Patarasuk and
    # Yuan 2009).
    assert sent == [pytest.approx(2 * (ranks - 1) / ranks * MODEL_BYTES, rel=WITHIN)] * ranks


@pytest.mark.parametrize("workers", one_of([3, 2, 4]))
def test_parameter_server_is_sent_the_model_and_sends_it_back(
    namespace: Namespace, helm4: Path, all_images: None, workers: int
) -> None:
    arguments = ["--framework=mxnet", "--strategy=parameter-server"]
    values = {**MXNET, "workers.replicas": workers, "servers.cpu": "100m", "arguments": arguments}

    counted = _per_step(namespace, helm4, "mnist-mxnet-ps.yaml", "mxjobs", values)

    # A worker sends and receives the model once per step, whatever the number of workers. So the servers' traffic grows
    # with the number of workers.
    assert len(counted) == workers
    for report in counted:
        assert report == {name: pytest.approx(MODEL_BYTES, rel=WITHIN) for name in ("tx", "rx")}
