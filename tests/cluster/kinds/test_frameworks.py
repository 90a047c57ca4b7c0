"""Train each framework to the end in every kind of job that supports it. The data are the digits, or pictures in S3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.cluster import lifecycle
from lab.datasets.pictures import photographs, write_image_folder
from lab.paths import CHART
from tests.cluster.testbed import BUCKET, VALUES, Namespace, settings

# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"

# The values files are tuned for the 60 000 images of MNIST. The tests train on 1437 digits, which need other values.
LEARNING = {
    "workers.gpus": 0,
    "trainer.batchSize": 32,
    "trainer.epochs": 10,
    "trainer.optimizer": "adam",
    "trainer.learningRate": 0.01,
    "trainer.warmup": 20,
}
TFJOB = {"strategy": "parameter-server", "servers.replicas": 1, "servers.cpu": "100m"}
ASYNC = {"trainer.extraArgs": ["--kvstore=dist_async"]}
PYTORCH = {"framework": "pytorch", "image.repository": "distrain/pytorch"}
FULL = pytest.mark.full
RUNS = [
    pytest.param("mnist-mxnet-horovod.yaml", "mpijobs", {}, id="mxnet-MPIJob", marks=FULL),
    # These cases run only in the full matrix, because rescale/test_rescale_kinds.py also trains MXJobs.
    pytest.param("mnist-mxnet-ps.yaml", "mxjobs", {}, id="mxnet-MXJob-dist_sync", marks=FULL),
    pytest.param("mnist-mxnet-ps.yaml", "mxjobs", ASYNC, id="mxnet-MXJob-dist_async", marks=FULL),
    # This case runs only in the full matrix. In `make test`, test_kinds.py connects a Master with its Workers, and
    # test_stock_image.py trains a PyTorchJob to the end.
    pytest.param("mnist-pytorch.yaml", "pytorchjobs", {"workers.replicas": 2}, id="pytorch-Master-Worker", marks=FULL),
    pytest.param("mnist-pytorch-elastic.yaml", "pytorchjobs", {}, id="pytorch-elastic", marks=FULL),
    pytest.param("mnist.yaml", "mpijobs", {**PYTORCH, "job.kind": "MPIJob"}, id="pytorch-MPIJob", marks=FULL),
    pytest.param("mnist.yaml", "tfjobs", TFJOB, id="tensorflow-TFJob"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "kind", "values"), RUNS)
def test_digits_are_learned(
    namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None, file: str, kind: str, values: dict[str, Any]
) -> None:
    given = [*on_s3, *settings({**LEARNING, **values})]

    installed = namespace.helm(helm4, "install", "run1", str(CHART), "-f", str(VALUES / file), *given)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(kind, seconds=600) == "Succeeded", namespace.story()
    assert namespace.results()["accuracy"] >= 0.95


# This test runs only in the full matrix, because test_storage_faults.py trains on pictures in S3 without a cluster.
@FULL
def test_pictures_are_streamed_from_s3(
    namespace: Namespace, helm3: Path, on_s3: list[str], all_images: None, tmp_path: Path
) -> None:
    write_image_folder(tmp_path, photographs(8, size=224, classes=2), ".jpg")
    client = lifecycle.s3_server().boto3_client()
    for path in tmp_path.rglob("*.jpg"):
        client.upload_file(str(path), BUCKET, f"pictures/{path.relative_to(tmp_path)}")
    size = {
        "workers.gpus": 0,
        "workers.replicas": 2,
        "workers.shm": "64Mi",
        "trainer.batchSize": 2,
        "trainer.epochs": 1,
    }
    given = [*on_s3, *settings({**size, "data.uri": f"s3://{BUCKET}/pictures", "trainer.warmup": 0})]

    installed = namespace.helm(helm3, "install", "run1", str(CHART), "-f", str(VALUES / "images-s3.yaml"), *given)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end("pytorchjobs", seconds=300) == "Succeeded", namespace.story()
    assert namespace.results()["steps"] == 2


@FULL
def test_resnet50_runs_on_synthetic_images(namespace: Namespace, helm3: Path) -> None:
    size = {"workers.gpus": 1, "workers.replicas": 2, "workers.shm": "64Mi", "trainer.batchSize": 2, "trainer.steps": 2}
    given = settings({**size, "trainer.logEvery": 1})

    installed = namespace.helm(helm3, "install", "run1", str(CHART), "-f", str(VALUES / "resnet50.yaml"), *given)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(seconds=300) == "Succeeded", namespace.story()
    assert "total images/sec:" in namespace.launcher_log()
