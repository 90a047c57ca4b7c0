"""values/: each file renders, and is the job that its comments tell of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.rendering import VALUES, render


@pytest.mark.parametrize("file", sorted(VALUES.glob("*.yaml")), ids=lambda file: file.stem)
def test_file_says_what_a_user_must_change(file: Path) -> None:
    text = file.read_text(encoding="utf-8")

    assert "helm install run1 charts/distrain -f values/" + file.name in text
    assert "# CHANGE: " in text


def test_vgg16_runs_on_8_gpus_with_synthetic_data(helm: Path) -> None:
    rendered = render(helm, "--values", str(VALUES / "vgg16.yaml"))

    spec = rendered.job["spec"]
    assert (spec["mpiReplicaSpecs"]["Worker"]["replicas"], spec["slotsPerWorker"]) == (2, 4)
    assert rendered.container("Worker")["resources"]["limits"] == {"nvidia.com/gpu": 4}
    expected = {"--model=vgg16", "--batch-size=64", "--precision=fp16", "--steps=100", "--data=synthetic"}
    assert expected <= set(rendered.program)


def test_mnist_reads_and_writes_s3_on_the_cpu(helm: Path) -> None:
    rendered = render(helm, "--values", str(VALUES / "mnist.yaml"))

    spec = rendered.job["spec"]
    assert (spec["mpiReplicaSpecs"]["Worker"]["replicas"], spec["slotsPerWorker"]) == (2, 1)
    assert "resources" not in rendered.container("Worker")
    expected = {"--model=mnist", "--data=s3://digits/idx", "--output=s3://results/digits/default/run1"}
    assert expected <= set(rendered.program)
    assert "AWS_SECRET_ACCESS_KEY" in rendered.env("Worker")
