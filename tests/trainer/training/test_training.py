"""Test whole runs of every program. All ranks run in one container, from the framework's image."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain.record import read
from distrain_trainer.loop.json_line import PREFIX
from distrain_trainer.models import MODELS
from tests.matrix import one_of
from tests.trainer.conftest import DIGITS_IN_IMAGE, PROGRAMS, SCRIPTS, Mpirun, ProgramInImage, assert_refused, tried_by

TRAINER = ("python3", "-m", "distrain_trainer")
BYTES_OF_A_FLOAT = 4
LEARNS_DIGITS = shlex.split("--batch-size 32 --epochs 10 --optimizer adam --learning-rate 0.01 --warmup 20")


@pytest.mark.shared
def test_synthetic_run_prints_its_steps_and_the_total_of_all_ranks(program: ProgramInImage) -> None:
    # The largest seed that the chart allows: each rank adds its number to the seed.
    run = program("--steps", "25", "--batch-size", "16", "--log-every", "10", "--seed", "4294967295")

    assert run.returncode == 0, run.stderr
    header, *lines, rule, total, rule_below = run.stdout.splitlines()
    steps, figures = lines[::2], [json.loads(line.removeprefix(PREFIX)) for line in lines[1::2]]
    assert header == "Step\tImg/sec\ttotal_loss"
    assert [line.split("\t")[0] for line in steps] == ["6", "10", "20", "25"]
    assert all(
        re.fullmatch(r"\d+\timages/sec: [\d.]+ \+/- [\d.]+ \(jitter = [\d.]+\)\t\d+\.\d{3}", line) for line in steps
    )
    assert rule == rule_below == "-" * 64
    rate_of_rank_0 = float(steps[-1].split()[2])
    assert float(total.removeprefix("total images/sec: ")) == pytest.approx(2 * rate_of_rank_0, rel=0.01)
    assert [(line["step"], line["samples"], line["world_size"]) for line in figures][-1] == (25, 800, 2)
    assert run.stderr == ""


@pytest.mark.shared
def test_half_precision_without_a_gpu_is_said_and_trains_on(program: ProgramInImage) -> None:
    run = program("--steps", "2", "--batch-size", "4", "--precision", "fp16", ranks=1)

    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("trainer.precision: fp16 needs a GPU and none is visible; training in fp32\n")


# Full matrix only: in the next test, two ranks learn the digits with every program.
@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("ranks", [1, 4])
def test_same_values_reach_the_same_accuracy_with_any_number_of_ranks(name: str, ranks: int, digits: Path) -> None:
    program = ProgramInImage.named(name, digits)

    run = program(*LEARNS_DIGITS, "--data", DIGITS_IN_IMAGE, ranks=ranks)

    assert run.returncode == 0, run.stderr
    assert float(run.stdout.partition("test accuracy: ")[2].split()[0]) >= 0.95


# The tests on the lab's cluster train the other frameworks on digits in S3.
@tried_by("mxnet-horovod")
def test_digits_from_s3_are_learnt_and_the_outcome_is_in_s3(
    program: ProgramInImage, digits_uri: str, s3_server: Any, s3_env: dict[str, str]
) -> None:
    client = s3_server.boto3_client()
    client.create_bucket(Bucket=f"runs-{program.name}")
    output = f"s3://runs-{program.name}/default/run1"

    run = program(*LEARNS_DIGITS, "--data", digits_uri, "--output", output, env=s3_env)

    assert run.returncode == 0, run.stderr
    accuracy = float(run.stdout.partition("test accuracy: ")[2].split()[0])
    assert accuracy >= 0.95

    def written(name: str) -> bytes:
        content: bytes = client.get_object(Bucket=f"runs-{program.name}", Key=f"default/run1/{name}")["Body"].read()
        return content

    assert written("log.txt").decode() == run.stdout
    results = json.loads(written("results.json"))
    assert results["accuracy"] == pytest.approx(accuracy, abs=1e-4)
    assert results["steps"] == 10 * 23
    assert results["history"][-1]["step"] == 230
    assert results["world_size"] == 2
    assert results["framework"] == program.program.framework
    assert len(written(program.program.model)) > 50_000 * BYTES_OF_A_FLOAT


# Full matrix only: the next test checks the same, except for the optimizer's variables.
@pytest.mark.full
def test_ranks_start_alike_and_end_with_equal_weights(mpirun: Mpirun) -> None:
    run = mpirun(
        "python3", "/weights_of_ranks.py", mounts={SCRIPTS / "weights/weights_of_ranks.py": "/weights_of_ranks.py"}
    )

    assert run.returncode == 0, run.stderr
    first, second = json.loads(run.stdout.splitlines()[-1])
    assert first["own_start"] != second["own_start"]
    assert first["shared_start"] == second["shared_start"]
    assert first["end"] == second["end"] != first["shared_start"]


@pytest.mark.parametrize("optimizer", one_of(["sgd", "adam"]))
def test_two_ranks_end_where_one_with_the_whole_batch_does(optimizer: str, digits: Path, tmp_path: Path) -> None:
    horovod = ProgramInImage.named("tensorflow-horovod", digits)

    def weights_after(ranks: int, batch_size: int) -> dict[str, list[list[Any]]]:
        """Return each rank's weights from before rank 0 shares its weights, and those at the end."""
        folder = tmp_path / str(ranks)
        folder.mkdir()
        folder.chmod(0o777)
        arguments = f"--data {DIGITS_IN_IMAGE} --steps 3 --batch-size {batch_size} --learning-rate 0.01 --output /out"
        mounts = {SCRIPTS / "weights/tensorflow_weights.py": "/weights.py", folder: "/out"}
        env = {"TF_CPP_MIN_LOG_LEVEL": "2"}
        options = [*arguments.split(), "--optimizer", optimizer]
        run = horovod(*options, ranks=ranks, script="/weights.py", mounts=mounts, env=env)
        assert run.returncode == 0, run.stderr
        return {
            when: [list(np.load(folder / f"{when}-{rank}.npz").values()) for rank in range(ranks)]
            for when in ("start", "end")
        }

    # An epoch has two steps. For the second one, only one of the 1437 digits is left, so one of the two ranks has no
    # sample.
    alone, two = weights_after(1, 1436), weights_after(2, 718)

    assert any(not np.array_equal(first, second) for first, second in zip(*two["start"], strict=True))
    for expected, first, second in zip(*alone["end"], *two["end"], strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, expected, rtol=1e-3, atol=1e-4)
    last = read.in_folder(tmp_path / "2").of("step")[-1]
    assert 0 < (last.allreduce_wait_seconds_total or 0) < (last.step_seconds_total or 0)


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        pytest.param(
            "--data s3://datasets/digits",
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            r"s3\.secretName: .* refuses the keys of this Secret",
            id="wrong-key",
        ),
        # storage/test_refusals.py tests the following errors without running a program.
        pytest.param(
            "--data s3://digitz/x",
            {},
            r'data\.uri: bucket "digitz" does not exist at http',
            id="bucket-missing",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "--data s3://datasets/none",
            {},
            r"data\.uri: s3://datasets/none holds nothing; correct data\.uri, or put there MNIST-format idx \.gz files",
            id="prefix-empty",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "--data s3://datasets/digits --output s3://absent/run1",
            {},
            r'output\.uri: bucket "absent" does not exist',
            id="output-bucket-missing",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "--data s3://datasets/digits --output /opt/run1",
            {},
            r"output\.uri: /opt/run1/log\.txt cannot be written: Permission denied; mount a volume that user 1000",
            id="output-folder-not-writable",
        ),
        pytest.param("--data relative", {}, r"data\.uri: 'relative' is neither", id="argument", marks=pytest.mark.full),
    ],
)
def test_storage_that_cannot_serve_ends_the_run_in_one_line(
    arguments: str, environment: dict[str, str], message: str, mpirun: Mpirun, digits_uri: str, s3_env: dict[str, str]
) -> None:
    run = mpirun(*TRAINER, "--epochs", "1", *arguments.split(), env={**s3_env, **environment})

    assert_refused(run, message)
    # The error must come before the training begins.
    assert run.stdout == ""


# Full matrix only: in `make test`, the parameters of PyTorch's and MXNet's models are counted.
@pytest.mark.full
@pytest.mark.parametrize("names", [("mnist", "vgg16"), ("resnet50",)])
def test_models_have_their_published_parameters(names: tuple[str, ...], mpirun: Mpirun) -> None:
    # While a TensorFlow graph is built, the weights are only described, and not computed.
    count = (
        "import sys; import tensorflow as tf; tf.Graph().as_default().__enter__()\n"
        "from distrain_trainer.models import MODELS; from distrain_trainer.tensorflow.models import build\n"
        "for name in sys.argv[1:]:\n"
        "    described = MODELS[name]\n"
        "    model = build(name, shape=described.shape, classes=described.classes)\n"
        "    print(name, sum(variable.shape.num_elements() for variable in model.trainable_variables))"
    )

    run = mpirun("python3", "-c", count, *names, ranks=1)

    expected = [f"{name} {MODELS[name].parameters['tensorflow']}" for name in names]
    assert run.stdout.splitlines() == expected, run.stderr


# Full matrix only: in `make test`, test_pytorch.py trains the resnet50 of PyTorch.
@pytest.mark.full
def test_resnet50_trains(mpirun: Mpirun) -> None:
    run = mpirun(*TRAINER, "--model", "resnet50", "--steps", "2", "--batch-size", "1", ranks=1)

    assert run.returncode == 0, run.stderr
    assert re.search(r"^total images/sec: \d", run.stdout, re.MULTILINE)
