"""Test complete runs: from the installation to the trained model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cluster import lifecycle
from lab.demo import story
from lab.demo.site import RELEASE, REPORT
from lab.paths import CHART, REPOSITORY
from tests.cluster.testbed import VALUES, Namespace, settings
from tests.matrix import one_of

# With these values, a run fits on a machine with 24 GiB of memory and 2 cores.
ON_TWO_CORES = {"workers.gpus": 1, "trainer.batchSize": 1, "trainer.steps": 2, "trainer.logEvery": 1}


@pytest.mark.parametrize("framework", one_of(story.RUNS))
def test_demo_learns_the_digits_and_goes_on_with_another_worker(lab_operators: None, framework: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "lab", "demo"],
        # A user's demo trains for more epochs. With 200 epochs, even on a busy machine the third worker joins in the
        # first quarter of the run.
        env={**os.environ, "FRAMEWORK": framework, "EPOCHS": "200"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    results = json.loads(_stored("results.json"))
    assert results["world_size"] == 3
    assert results["accuracy"] >= 0.95
    assert f"test accuracy {results['accuracy']:.4f} on 3 ranks" in told.stdout
    assert " samples: 2 ranks stopped, and 3 went on\n" in told.stdout
    assert f"wrote {REPORT}/report.html and {REPORT}/report.png\n" in told.stderr
    assert "total images/sec:" in _stored("log.txt").decode()
    assert len(_stored(story.RUNS[framework][-1])) > 100_000


def _stored(name: str) -> bytes:
    key = f"models/distrain-demo/{RELEASE}/{name}"
    body: bytes = lifecycle.s3_server().boto3_client().get_object(Bucket="distrain-demo", Key=key)["Body"].read()
    return body


# On two cores, even this short run of VGG16 takes minutes.
@pytest.mark.parametrize("model", one_of(["mnist", "vgg16"]))
def test_run_with_plain_helm_comes_to_its_end_and_its_workers_are_gone(
    namespace: Namespace, helm3: Path, model: str
) -> None:
    size = settings({**ON_TWO_CORES, "trainer.model": model})

    installed = namespace.helm(helm3, "install", "run1", str(CHART), "-f", str(VALUES / "vgg16.yaml"), *size)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(seconds=300) == "Succeeded", namespace.launcher_log()
    assert "total images/sec:" in namespace.launcher_log()
    namespace.wait_for_no_running_pods()
