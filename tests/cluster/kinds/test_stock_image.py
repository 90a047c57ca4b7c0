"""Test jobs whose image contains only the framework.

The chart delivers the trainer, and pip installs the libraries for S3.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from lab.builds import images
from lab.cluster import client, faults
from lab.cluster.operators import Operators
from lab.paths import CHART
from tests.cluster.runs_of_kinds import KINDS, Kind, install, rescale, uids, wait_for_ranks
from tests.cluster.testbed import VALUES, Namespace, settings
from tests.cluster.training import head, live_pod, wait_for_checkpoint, wait_for_restart

DOCKERFILE = Path(__file__).parent / "stock-pytorch.Dockerfile"
# Only a rank's command line contains this text. The command lines of torchrun and its parent processes also contain the
# program's path, but not directly after `-u`.
RANK = "-u /opt/distrain/bin/distrain-trainer"
SECONDS = 300
# With these values, the model learns the 1437 digits.
LEARNING = {
    "trainer.batchSize": 32,
    "trainer.steps": None,
    "trainer.epochs": 10,
    "trainer.optimizer": "adam",
    "trainer.learningRate": 0.01,
    "trainer.warmup": 20,
}


@pytest.fixture(scope="module")
def stock_image(lab_operators: Operators) -> str:
    image = images.image_on("stock-pytorch", DOCKERFILE, "pytorch")
    client.load_image(image)
    return image.reference


def delivered(image: str) -> dict[str, Any]:
    """Return the values (path -> value) that deliver the trainer into the image.

    Pip reads the folder /wheels instead of a package index.
    """
    repository, _, tag = image.rpartition(":")
    return {
        "image.repository": repository.removeprefix("docker.io/"),
        "image.tag": tag,
        "trainer.delivery": "chart",
        "trainer.install": ["boto3"],
        "env": [{"name": "PIP_NO_INDEX", "value": "1"}, {"name": "PIP_FIND_LINKS", "value": "/wheels"}],
    }


def test_digits_from_s3_are_learned(namespace: Namespace, helm4: Path, on_s3: list[str], stock_image: str) -> None:
    given = [*on_s3, *settings({**LEARNING, **delivered(stock_image)})]

    installed = namespace.helm(helm4, "install", "run1", str(CHART), "-f", str(VALUES / "stock-pytorch.yaml"), *given)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end("pytorchjobs", seconds=SECONDS) == "Succeeded", namespace.story()
    assert namespace.results()["accuracy"] >= 0.95


# This test runs only in the full matrix, because test_kills_kinds.py and test_rescale_kinds.py test the same with the
# trainer's image.
@pytest.mark.full
def test_run_survives_a_killed_rank_and_goes_on_at_each_new_size(
    namespace: Namespace, helm4: Path, on_s3: list[str], stock_image: str
) -> None:
    elastic = KINDS["elastic"]
    kind = Kind(elastic.file, elastic.framework, elastic.resources, elastic.speaker, delivered(stock_image))
    install(namespace, helm4, kind, on_s3)
    before = wait_for_checkpoint(namespace, seconds=SECONDS)

    faults.send(signal.SIGKILL, live_pod(namespace, "worker", 1)["metadata"]["uid"], RANK)
    wait_for_restart(namespace, before, seconds=SECONDS)

    jobs = uids(namespace, kind)
    for size in (3, 1):
        rescale(namespace, helm4, kind, on_s3, size)
        wait_for_ranks(namespace, kind, size, seconds=SECONDS)
        wait_for_checkpoint(namespace, head(namespace), seconds=SECONDS)
    assert uids(namespace, kind) == jobs


def test_package_that_s3_needs_is_named_before_the_training(
    namespace: Namespace, helm4: Path, on_s3: list[str], stock_image: str
) -> None:
    given = [*on_s3, *settings({**delivered(stock_image), "trainer.install": []})]

    installed = namespace.helm(helm4, "install", "run1", str(CHART), "-f", str(VALUES / "stock-pytorch.yaml"), *given)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end("pytorchjobs", seconds=SECONDS) == "Failed", namespace.story()
    (status,) = failed_pod(namespace)["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    assert ended["exitCode"] == 2
    assert "distrain: data.uri: needs the Python package boto3, which this image does not hold" in ended["message"]


def failed_pod(namespace: Namespace) -> dict[str, Any]:
    """Return the first failed pod of the job, but none that the operator ended after another one had failed."""
    pods = namespace.get("pods -l app.kubernetes.io/component=worker")
    return next(
        pod for pod in pods if pod["status"]["phase"] == "Failed" and "deletionTimestamp" not in pod["metadata"]
    )
