"""Test the figures that `derive` adds as comments."""

from __future__ import annotations

import pytest

from distrain.workload.kinds import FACTS
from tests.plugin.derive.deriving import Derive


def test_figures_follow_what_the_trainer_is_told_last(derive: Derive) -> None:
    outcome = derive("gpus: 8\ntrainer: {batchSize: 64, extraArgs: [--batch-size=16]}\n", "--node-gpus", "8")

    assert "#   global batch      128 = 8 ranks x trainer.batchSize 16\n" in outcome.out


def test_figures_count_one_rank(derive: Derive) -> None:
    outcome = derive("gpus: 1\ntrainer: {batchSize: 64}\n", "--node-gpus", "1")

    assert "#   world size        1 = 1 worker x 1 rank\n" in outcome.out
    assert "#   global batch      64 = 1 rank x trainer.batchSize 64\n" in outcome.out


@pytest.mark.parametrize(
    ("gpus", "model", "traffic"),
    [
        pytest.param(1, "vgg16", set(), id="one-rank"),
        pytest.param(2, "vgg16", {"all-reduce", "parameter server"}, id="two-ranks-of-a-worker"),
        pytest.param(16, "vgg16", {"all-reduce", "parameter server", "communication"}, id="two-workers"),
        pytest.param(1, "mine:model", set(), id="one-rank-of-a-users-model"),
        pytest.param(2, "mine:model", {"all-reduce"}, id="two-ranks-of-a-users-model"),
    ],
)
def test_figures_tell_of_traffic_where_there_is_some(derive: Derive, gpus: int, model: str, traffic: set[str]) -> None:
    outcome = derive(f"gpus: {gpus}\ntrainer: {{model: '{model}'}}\n", "--node-gpus", "8")

    assert {
        name for name in ("all-reduce", "parameter server", "communication") if f"#   {name} " in outcome.out
    } == traffic


@pytest.mark.parametrize("framework", FACTS.choices["allreduce"])
def test_figures_compare_only_with_a_strategy_that_the_chart_runs(derive: Derive, framework: str) -> None:
    values = f"framework: {framework}\ngpus: 2\ntrainer: {{model: vgg16}}\n"
    is_run = derive(values, "--node-gpus", "1", "--set", "strategy=parameter-server").code == 0

    assert ("#   parameter server" in derive(values, "--node-gpus", "1").out) == is_run


def test_figures_count_the_steps_of_all_epochs(derive: Derive) -> None:
    trainer = "data: {uri: 's3://bucket/images'}\ntrainer: {model: resnet50, batchSize: 32, epochs: 2}"

    assert "; 10010 in 2 epochs\n" in derive(f"gpus: 8\n{trainer}\n", "--node-gpus", "8").out
    assert " epochs\n" not in derive("gpus: 8\ntrainer: {model: resnet50}\n", "--node-gpus", "8").out


def test_gradients_name_the_images_that_are_assumed(derive: Derive) -> None:
    given = derive("gpus: 8\ndata: {uri: 's3://bucket/images'}\ntrainer: {model: mnist}\n", "--node-gpus", "8").out
    synthetic = derive("gpus: 8\ntrainer: {model: mnist}\n", "--node-gpus", "8").out

    assert "0.4216 million parameters, if the data has images of 28x28x1 and 10 classes\n" in given
    assert "0.4216 million parameters (images of 28x28x1 and 10 classes)\n" in synthetic


def test_figures_name_the_longest_time_between_checkpoints(derive: Derive) -> None:
    one = derive("gpus: 1\ntrainer: {model: resnet50}\n", "--node-gpus", "8").out
    many = derive("gpus: 64\ntrainer: {model: resnet50}\n", "--node-gpus", "8").out

    assert "#   checkpoint        one every 30 min, the longest that checkpoint.every: auto takes\n" in one
    assert "loses least (Young/Daly)" in many


@pytest.mark.parametrize(
    ("images", "time"), [(100, "649 ms"), (1000, "6.49 s"), (10_000, "1.08 min"), (1_000_000, "1.8 h")]
)
def test_figures_tell_a_time_in_its_largest_unit(derive: Derive, images: int, time: str) -> None:
    outcome = derive(f"gpus: 16\ntrainer: {{model: vgg16, batchSize: {images}}}\n", "--node-gpus", "8")

    assert f" of one that computes for {time} (a P100 in fp32) " in outcome.out


def test_gpus_of_nought_train_on_cpus(derive: Derive) -> None:
    outcome = derive("gpus: 0\n")

    assert outcome.workers == {"gpus": 0}
    assert "#   world size        2 = 2 workers x 1 rank, on CPUs\n" in outcome.out


def test_comment_that_looks_like_a_figure_is_not_read_as_one(derive: Derive) -> None:
    head = "# My run:\n#\n#   helm distrain check -f run.yaml\n\n"
    made = derive(head + "gpus: 8\n", "--node-gpus", "8").out

    assert "#   helm distrain check -f run.yaml\n" in made
    assert derive(made, "--check").out == "derived values are up to date\n"
