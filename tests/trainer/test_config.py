"""Test that a command line is parsed into a Config, or refused with an error line that names the wrong value."""

from __future__ import annotations

import importlib.util
import json
import shlex

import pytest

from distrain_trainer.__main__ import program_of
from distrain_trainer.config import Config, parse
from distrain_trainer.errors import ArgumentError

# The arguments that the chart passes with its default values, without --data and --output.
FROM_THE_CHART = shlex.split(
    "--framework tensorflow --strategy allreduce --model mnist --batch-size 64 --steps 100 --precision fp32 "
    "--optimizer sgd --learning-rate 0.1 --warmup 0 --seed 1 --log-every 10"
)


def test_command_line_of_the_chart_is_understood() -> None:
    config = parse([*FROM_THE_CHART, "--data", "s3://datasets/digits", "--output", "s3://runs/default/run1"])

    assert config == Config(
        framework="tensorflow",
        model="mnist",
        batch_size=64,
        steps=100,
        learning_rate=0.1,
        seed=1,
        data="s3://datasets/digits",
        output="s3://runs/default/run1",
    )


def test_checkpoints_of_the_chart_are_understood() -> None:
    arguments = "--checkpoint s3://runs/default/run1 --checkpoint-every auto --checkpoint-keep 3 --resume auto"

    config = parse([*FROM_THE_CHART, *arguments.split()])

    assert (config.checkpoint, config.checkpoint_every) == ("s3://runs/default/run1", None)
    assert config.checkpoint_max_age == 1800
    assert parse([*FROM_THE_CHART, "--checkpoint-every", "90"]).checkpoint_every == 90
    assert parse([*FROM_THE_CHART, "--checkpoint-max-age", "600"]).checkpoint_max_age == 600


def test_empty_output_writes_nothing() -> None:
    config = parse([*FROM_THE_CHART, "--data", "synthetic", "--output", ""])

    assert config.output == ""


@pytest.fixture
def image_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all frameworks importable, as in an image that contains every framework."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


def test_program_of_the_charts_default_is_found(image_of_all: None) -> None:
    assert program_of(parse(FROM_THE_CHART)) == "distrain_trainer.tensorflow.horovod"


@pytest.mark.parametrize(
    ("starter", "program"),
    [
        pytest.param({}, "distrain_trainer.pytorch.ddp", id="torchrun"),
        pytest.param({"OMPI_COMM_WORLD_SIZE": "2"}, "distrain_trainer.pytorch.horovod", id="mpirun"),
    ],
)
def test_program_of_pytorch_is_the_starters(
    image_of_all: None, monkeypatch: pytest.MonkeyPatch, starter: dict[str, str], program: str
) -> None:
    monkeypatch.delenv("OMPI_COMM_WORLD_SIZE", raising=False)
    for name, value in starter.items():
        monkeypatch.setenv(name, value)

    assert program_of(parse(["--steps", "1", "--framework", "pytorch"])) == program


@pytest.mark.parametrize(
    ("task", "program"),
    [
        pytest.param("worker", "distrain_trainer.mxnet.kvstore", id="worker"),
        pytest.param("server", "distrain_trainer.mxnet.server", id="server"),
        pytest.param("scheduler", "distrain_trainer.mxnet.server", id="scheduler"),
    ],
)
def test_program_of_an_mxjob_is_the_roles(
    image_of_all: None, monkeypatch: pytest.MonkeyPatch, task: str, program: str
) -> None:
    monkeypatch.setenv("MX_CONFIG", json.dumps({"task": {"type": task, "index": 1}}))

    assert program_of(parse(["--steps", "1", "--framework", "mxnet", "--strategy", "parameter-server"])) == program


def test_kind_of_kvstore_is_taken() -> None:
    arguments = ["--steps", "1", "--framework", "mxnet", "--strategy", "parameter-server", "--kvstore", "dist_async"]

    assert parse(arguments).kvstore == "dist_async"


def test_strategy_without_a_program_is_refused(image_of_all: None) -> None:
    config = parse(["--steps", "1", "--framework", "pytorch", "--strategy", "parameter-server"])

    with pytest.raises(ArgumentError, match=r"^strategy: the trainer trains pytorch with allreduce, not with "):
        program_of(config)


@pytest.mark.parametrize(
    ("held", "step"),
    [
        pytest.param([], "", id="none"),
        pytest.param(["torch"], ", or set framework to pytorch (by hand: --framework pytorch)", id="another"),
    ],
)
def test_framework_that_the_image_lacks_is_refused(monkeypatch: pytest.MonkeyPatch, held: list[str], step: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in held else None)

    with pytest.raises(ArgumentError) as raised:
        program_of(parse(["--steps", "1"]))

    words = "framework: this image does not hold tensorflow; set image.repository to an image that holds it"
    assert str(raised.value) == f"{words}{step}"


def test_later_argument_overrides_an_earlier_one() -> None:
    # The chart puts the arguments from trainer.extraArgs at the end of the command.
    config = parse([*FROM_THE_CHART, "--log-every", "1"])

    assert config.log_every == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param("", r"^trainer\.steps: neither", id="no-length"),
        pytest.param(
            "--steps 1 --epochs 1 --data /d", r"^trainer\.steps: 1 steps and 1 trainer\.epochs", id="two-lengths"
        ),
        pytest.param("--epochs 1", r"^trainer\.epochs: synthetic data has no end", id="epochs-of-synthetic"),
        pytest.param("--steps 0", r"^trainer\.steps: 0 is below 1", id="no-step"),
        pytest.param("--epochs 0 --data /d", r"^trainer\.epochs: 0 is below 1", id="no-epoch"),
        pytest.param("--steps 1 --batch-size 0", r"^trainer\.batchSize: 0 is below 1", id="no-batch"),
        pytest.param("--steps 1 --log-every 0", r"^trainer\.logEvery: 0 is below 1", id="no-log"),
        pytest.param("--steps 1 --warmup -1", r"^trainer\.warmup: -1 is below 0", id="negative-warmup"),
        pytest.param("--steps 1 --seed -1", r"^trainer\.seed: -1 is below 0", id="negative-seed"),
        pytest.param("--steps 1 --learning-rate 0", r"^trainer\.learningRate: 0\.0 is no rate", id="zero-rate"),
        pytest.param(
            "--steps 1 --learning-rate nan", r"^trainer\.learningRate: nan is no rate", id="rate-not-a-number"
        ),
        pytest.param(
            "--steps 1 --batch-size x", r"^trainer\.batchSize: invalid int value: 'x'", id="batch-not-a-number"
        ),
        pytest.param("--steps 1 --image-size 0", r"^trainer\.extraArgs: --image-size: 0 is below 1", id="no-size"),
        pytest.param(
            "--steps 1 --classes x", r"^trainer\.extraArgs: --classes: invalid int", id="classes-not-a-number"
        ),
        pytest.param("--steps 1 --learning-rate inf", r"^trainer\.learningRate: inf is no rate", id="infinite-rate"),
        pytest.param("--steps 1 --model lenet", r"^trainer\.model: 'lenet' is neither mnist, ", id="unknown-model"),
        pytest.param("--steps 1 --strategy ring", r"^strategy: invalid choice: 'ring'", id="unknown-strategy"),
        pytest.param(
            "--steps 1 --framework mxnet --strategy parameter-server --kvstore ring",
            r"^trainer\.extraArgs: --kvstore: invalid choice: 'ring'",
            id="unknown-kvstore",
        ),
        pytest.param(
            "--steps 1 --compile --framework mxnet",
            r"^trainer\.extraArgs: --compile works only with PyTorch and TensorFlow, but framework is mxnet; remove",
            id="compile-of-another",
        ),
        pytest.param(
            "--steps 1 --tensorboard",
            r"^trainer\.tensorboard: event files are written below output\.uri, which is empty; set it, or set tr",
            id="event-files-without-a-place",
        ),
        pytest.param(
            "--steps 1 --framework mxnet --kvstore dist_async",
            r"^trainer\.extraArgs: --kvstore works only with mxnet and a parameter server, but this run uses mxnet ",
            id="kvstore-of-another",
        ),
        pytest.param("--steps 1 --framework caffe", r"^framework: invalid choice: 'caffe'", id="unknown-framework"),
        pytest.param("--steps 1 --data digits", r"^data\.uri: 'digits' is neither", id="relative-data"),
        pytest.param("--steps 1 --data s3:///digits", r"^data\.uri: 's3:///digits' is neither", id="no-bucket"),
        pytest.param("--steps 1 --output gs://b", r"^output\.uri: 'gs://b' is neither", id="unknown-output"),
        pytest.param("--steps 1 --checkpoint c", r"^checkpoint\.uri: 'c' is neither s3://", id="relative-checkpoint"),
        pytest.param("--steps 1 --checkpoint-every x", r"^checkpoint\.every: 'x' is neither auto", id="no-time"),
        pytest.param("--steps 1 --checkpoint-max-age 0", r"^checkpoint\.maxAge: 0 seconds; give more", id="no-age"),
        pytest.param("--steps 1 --checkpoint-every 0", r"^checkpoint\.every: 0 seconds; give more", id="no-interval"),
        pytest.param("--steps 1 --checkpoint-keep 0", r"^checkpoint\.keep: 0 is below 1", id="keeps-none"),
        pytest.param("--steps 1 --resume always", r"^checkpoint\.resume: invalid choice", id="unknown-resume"),
        pytest.param(
            "--steps 1 --momentum 0.8",
            r"^trainer\.extraArgs: unrecognized arguments: --momentum 0\.8; .*--help",
            id="unknown",
        ),
        pytest.param("--steps 1 --batch 8", r"^trainer\.extraArgs: unrecognized arguments: --batch", id="abbreviation"),
    ],
)
def test_wrong_argument_is_refused_by_its_value_path(arguments: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        parse(arguments.split())
