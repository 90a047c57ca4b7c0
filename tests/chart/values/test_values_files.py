"""Test that the files in values/ render, and produce the jobs that their comments describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.rendering import VALUES, Rendered, render


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
    assert "limits" not in rendered.container("Worker")["resources"]
    expected = {"--model=mnist", "--data=s3://digits/idx", "--output=s3://results/digits/default/run1"}
    assert expected <= set(rendered.program)
    assert "AWS_SECRET_ACCESS_KEY" in rendered.env("Worker")


def size(rendered: Rendered) -> dict[str, int]:
    return {role: replica["replicas"] for role, replica in rendered.replicas.items()}


def of_file(helm: Path, name: str) -> Rendered:
    return render(helm, "--values", str(VALUES / f"{name}.yaml"))


def test_vgg16_openmpi_needs_no_operator(helm: Path) -> None:
    rendered = of_file(helm, "vgg16-openmpi")

    assert rendered.is_plain
    assert rendered.job["spec"]["completions"] == 3
    assert rendered.container("Worker")["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert {"--model=vgg16", "--batch-size=64", "--precision=fp16", "--steps=100"} <= set(rendered.program)
    mpirun = " ".join(rendered.mpirun)
    assert "--mca btl ^openib --mca btl_tcp_if_exclude lo,docker0 " in mpirun
    assert "--mca pml ob1 --bind-to none --map-by slot --display-map --tag-output --timestamp-output" in mpirun
    env = rendered.env("Worker")
    assert (env["NCCL_MIN_NRINGS"]["value"], env["NCCL_DEBUG"]["value"]) == ("8", "INFO")


def test_mnist_mxnet_ps_has_a_scheduler_a_server_and_two_workers(helm: Path) -> None:
    rendered = of_file(helm, "mnist-mxnet-ps")

    assert rendered.job["kind"] == "MXJob"
    assert size(rendered) == {"Scheduler": 1, "Server": 1, "Worker": 2}
    assert {"--strategy=parameter-server", "--epochs=10"} <= set(rendered.container("Worker")["args"])


@pytest.mark.parametrize("version", ["v1alpha2", "v1", "v2beta1"])
def test_mnist_mxnet_horovod_is_an_mpijob_of_the_version_served(helm: Path, version: str) -> None:
    file = str(VALUES / "mnist-mxnet-horovod.yaml")

    rendered = render(helm, "--values", file, "--api-versions", f"kubeflow.org/{version}/MPIJob")

    assert rendered.job["apiVersion"] == f"kubeflow.org/{version}"
    assert rendered.job["spec"]["slotsPerWorker"] == 1
    assert {"--framework=mxnet", "--epochs=10", "--learning-rate=0.001"} <= set(rendered.program)
    env = rendered.env("Worker")
    assert (env["NCCL_SOCKET_IFNAME"]["value"], env["MXNET_CUDNN_AUTOTUNE_DEFAULT"]["value"]) == ("eth0", "0")
    assert "-np" not in rendered.mpirun


def test_resnet50_runs_on_24_gpus(helm: Path) -> None:
    rendered = of_file(helm, "resnet50")

    assert (size(rendered)["Worker"], rendered.job["spec"]["slotsPerWorker"]) == (3, 8)
    assert {"--model=resnet50", "--data=synthetic"} <= set(rendered.program)


def test_mnist_pytorch_is_a_master_and_two_workers(helm: Path) -> None:
    rendered = of_file(helm, "mnist-pytorch")

    assert rendered.job["kind"] == "PyTorchJob"
    assert size(rendered) == {"Master": 1, "Worker": 2}
    assert "--epochs=5" in rendered.container("Master")["args"]
    assert rendered.container("Master")["resources"] == {"limits": {"nvidia.com/gpu": 1}}


def test_mnist_pytorch_elastic_may_change_its_size(helm: Path) -> None:
    rendered = of_file(helm, "mnist-pytorch-elastic")

    assert size(rendered) == {"Worker": 2}
    policy = rendered.job["spec"]["elasticPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (1, 4)
    assert "--max-restarts=3" in rendered.container("Worker")["args"]


def test_images_s3_streams_images(helm: Path) -> None:
    rendered = of_file(helm, "images-s3")

    assert rendered.job["spec"]["nprocPerNode"] == "4"
    assert {"--model=resnet50", "--data=s3://images", "--image-size=224"} <= set(rendered.container("Worker")["args"])
    assert "AWS_SECRET_ACCESS_KEY" in rendered.env("Worker")


def test_resnet50_imagenet_has_the_published_recipe(helm: Path) -> None:
    rendered = of_file(helm, "resnet50-imagenet")

    batch = size(rendered)["Worker"] * int(rendered.job["spec"]["nprocPerNode"]) * 512
    assert batch == 8192
    arguments = set(rendered.container("Worker")["args"])
    assert {"--batch-size=512", "--epochs=90", "--warmup-epochs=5", "--learning-rate=0.1"} <= arguments
    assert {"--schedule=step", "--milestones=30,60,80", "--decay-factor=0.1", "--weight-decay=0.0001"} <= arguments
    assert {"--augment-scale=0.08,1", "--augment-test-resize=256", "--image-size=224"} <= arguments
