"""Test the values of the training recipe: the trainer's arguments from them, and the rules (_validate-recipe.tpl)."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain_trainer.config import Config, parse
from tests.chart.rendering import render, render_with
from tests.chart.templates.validation.neighbours import assert_refused_and_neighbour_accepted

DATA = "data: {uri: s3://images}\n"
SIZE = "extraArgs: [--image-size=224]"
SERVERS = "strategy: parameter-server\nframework: mxnet\n"
WHOLE = """
data: {uri: s3://imagenet}
trainer:
  epochs: 90
  optimizer: lamb
  learningRate: 0.1
  warmupEpochs: 5
  rateScaling: linear
  schedule: step
  milestones: [30, 60.5]
  decayFactor: 0.25
  weightDecay: 5e-5
  labelSmoothing: 0.1
  ema: 0.9999
  evaluateEvery: 2
  augment:
    scale: [0.08, 1]
    ratio: [0.75, 1.5]
    flip: false
    mean: [0.485, 0.456, 0.406]
    std: [0.229, 0.224, 0.225]
    testResize: 256
  extraArgs: [--image-size=224]
"""


def test_trainer_understands_the_whole_recipe(helm: Path, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(WHOLE, encoding="utf-8")

    program = render(helm, "--values", str(tmp_path / "values.yaml")).program

    config = parse(program[3:])
    usual = Config(steps=1)
    told = {name: getattr(config, name) for name in vars(config) if getattr(config, name) != getattr(usual, name)}
    assert told == {
        "augment_flip": "false",
        "augment_mean": (0.485, 0.456, 0.406),
        "augment_ratio": (0.75, 1.5),
        "augment_scale": (0.08, 1.0),
        "augment_std": (0.229, 0.224, 0.225),
        "augment_test_resize": 256,
        "batch_size": 32,
        "checkpoint": "/checkpoints/default/run1",
        "data": "s3://imagenet",
        "decay_factor": 0.25,
        "ema": 0.9999,
        "epochs": 90,
        "evaluate_every": 2,
        "image_size": 224,
        "label_smoothing": 0.1,
        "milestones": (30.0, 60.5),
        "optimizer": "lamb",
        "rate_scaling": "linear",
        "schedule": "step",
        "seed": 1,
        "steps": None,
        "warmup_epochs": 5.0,
        "weight_decay": 5e-5,
    }


def test_recipe_on_the_command_line_is_that_of_a_file(helm: Path) -> None:
    program = render_with(
        helm,
        (
            "data.uri=s3://a",
            "trainer.weightDecay=0.0001",
            "trainer.augment.mean={0.5,0.25,1}",
            "trainer.augment.std={1,2,3}",
        ),
    ).program

    assert {"--weight-decay=0.0001", "--augment-mean=0.5,0.25,1"} <= set(program)


def test_run_without_a_recipe_has_no_argument_of_one(helm: Path) -> None:
    names = (
        "--schedule",
        "--weight",
        "--ema",
        "--augment",
        "--evaluate",
        "--rate",
        "--label",
        "--milestones",
        "--decay",
    )

    assert not [argument for argument in render(helm).program if argument.startswith(names)]


@pytest.mark.parametrize(
    ("refused", "words", "accepted"),
    [
        pytest.param(
            f"{SERVERS}trainer: {{optimizer: lars}}",
            "trainer.optimizer: lars needs the norm of each whole weight, but each parameter server holds "
            "only a part of a weight",
            "framework: mxnet\ntrainer: {optimizer: lars}",
            id="lars-on-servers",
        ),
        pytest.param(
            f"{SERVERS}trainer: {{ema: 0.99}}",
            "trainer.ema: 0.99 needs all workers at the same step, but with parameter servers the workers "
            "are at different",
            f"{SERVERS}trainer: {{ema: 0}}",
            id="ema-on-servers",
        ),
        pytest.param(
            f"{SERVERS}{DATA}trainer: {{evaluateEvery: 1}}",
            "trainer.evaluateEvery: 1 needs all workers at the same step",
            f"{DATA}trainer: {{evaluateEvery: 1}}",
            id="evaluations-on-servers",
        ),
        pytest.param(
            f"{DATA}trainer: {{schedule: step}}",
            "trainer.milestones: is none, but trainer.schedule is step; set milestones, such as [30, 60, "
            "80], only together with",
            f"{DATA}trainer: {{schedule: step, milestones: [1]}}",
            id="no-milestones",
        ),
        pytest.param(
            f"{DATA}trainer: {{milestones: [30, 60]}}",
            "trainer.milestones: is 30,60, but trainer.schedule is constant",
            f"{DATA}trainer: {{schedule: cosine, milestones: []}}",
            id="milestones-of-no-schedule",
        ),
        pytest.param(
            f"{DATA}trainer: {{schedule: step, milestones: [30, 60, 60]}}",
            "trainer.milestones: is 30,60,60, but must be ascending epochs; correct it, as in [30, 60, 80]",
            f'{DATA}trainer: {{schedule: step, milestones: ["9.5", 30, 60]}}',
            id="milestones-that-do-not-rise",
        ),
        pytest.param(
            f"trainer: {{augment: {{scale: [1, 0.08]}}, {SIZE}}}",
            "trainer.augment.scale: is 1,0.08, but must be the smallest and the largest share of an image's area; give "
            "two ascending numbers",
            f"trainer: {{augment: {{scale: [1, 1]}}, {SIZE}}}",
            id="falling-scale",
        ),
        pytest.param(
            f"trainer: {{augment: {{scale: [0.5]}}, {SIZE}}}",
            "trainer.augment.scale: is 0.5, but must be the smallest and the largest",
            f"trainer: {{augment: {{scale: []}}, {SIZE}}}",
            id="scale-of-one-number",
        ),
        pytest.param(
            f"trainer: {{augment: {{scale: [0.1, 1], ratio: [2, 1]}}, {SIZE}}}",
            "trainer.augment.ratio: is 2,1, but must be the smallest and the largest width divided by height; give two",
            f"trainer: {{augment: {{scale: [0.1, 1], ratio: [1, 2]}}, {SIZE}}}",
            id="falling-ratio",
        ),
        pytest.param(
            f"trainer: {{augment: {{ratio: [1, 2]}}, {SIZE}}}",
            "trainer.augment.ratio: is 1,2, but only crops have a ratio; set trainer.augment.scale too, or remove",
            f"trainer: {{augment: {{ratio: null}}, {SIZE}}}",
            id="ratio-without-a-scale",
        ),
        pytest.param(
            "trainer: {augment: {mean: [0.5, 0.25]}}",
            "trainer.augment.mean: is 0.5,0.25, but trainer.augment.std is none; give equally many numbers for both",
            "trainer: {augment: {mean: [0.5, 0.25], std: [1, 1]}}",
            id="mean-without-std",
        ),
        pytest.param(
            "trainer: {augment: {scale: [0.08, 1]}, extraArgs: [--classes=9]}",
            "trainer.augment.scale: needs the size to which images are scaled; add --image-size=224 or another size to",
            "trainer: {augment: {scale: [0.08, 1]}, extraArgs: [--image-size, 224]}",
            id="scale-without-a-size",
        ),
        pytest.param(
            "trainer: {augment: {testResize: 100}, extraArgs: [--image-size=64, --image-size=224]}",
            "trainer.augment.testResize: is 100, but the part that is cut out afterwards has --image-size=224; give 22",
            "trainer: {augment: {testResize: 100}, extraArgs: [--image-size=224, --image-size=64]}",
            id="resize-below-the-size",
        ),
        pytest.param(
            "trainer: {augment: {testResize: 100}}",
            "trainer.augment.testResize: needs the size",
            "command: [/train]\ntrainer: {augment: {testResize: 100}}",
            id="a-command-ignores-images",
        ),
        pytest.param(
            f"{DATA}trainer: {{warmup: 5, warmupEpochs: 2.5}}",
            "trainer.warmupEpochs: is 2.5, but trainer.warmup is 5; set only one of the two",
            f"{DATA}trainer: {{warmup: 0, warmupEpochs: 2.5}}",
            id="two-warm-ups",
        ),
        pytest.param(
            "trainer: {warmupEpochs: 5}",
            "trainer.warmupEpochs: counts epochs, but random data has no epochs; set data.uri, or remove "
            "trainer.warmupE",
            "trainer: {warmup: 5}",
            id="epochs-of-random-numbers",
        ),
        pytest.param(
            "trainer: {evaluateEvery: 5}",
            "trainer.evaluateEvery: counts epochs, but random data has no epochs",
            "command: [/train]\ntrainer: {evaluateEvery: 5}",
            id="a-command-ignores-them",
        ),
    ],
)
def test_recipe_that_does_not_fit_is_refused(
    helm: Path, tmp_path: Path, refused: str, words: str, accepted: str
) -> None:
    assert_refused_and_neighbour_accepted(helm, tmp_path, refused, words, accepted)
