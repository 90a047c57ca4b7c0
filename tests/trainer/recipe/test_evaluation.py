"""Test that the model is tested on all test samples after the requested epochs, and that the best model is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, Position, evaluation_batches
from distrain_trainer.data.idx import Arrays
from distrain_trainer.errors import DataError
from distrain_trainer.loop import saving
from distrain_trainer.loop.evaluation import Evaluator, count_right
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.steps import Outcome, make_steps
from distrain_trainer.results import Accuracy
from tests.trainer.fixtures.counter_run import DATASET, Counter, begin

TESTS, CLASSES = 50, 8


def make_step_of(run: Run, *, kill_before: int = 0) -> Callable[..., Callable[[], Outcome]]:
    def make_step(batch: Any, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        if run.position.step + 1 == kill_before:
            raise KeyboardInterrupt
        assert isinstance(run.state, Counter)
        run.state.weight += 1
        return lambda: Outcome(1.0, asked)

    return make_step


def evaluator_of(run: Run, right: Iterator[int]) -> Evaluator:
    """Return an evaluator that runs no model.

    In each test, the next number from `right` is the number of correct samples.

    The evaluator writes the text "after step N" as the model.
    """

    def count() -> tuple[float, float]:
        top1 = next(right)
        return top1, top1 + 5

    return Evaluator(run, TESTS, count, lambda path: _write(path, f"after step {run.position.step}"), "model.txt")


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def train(folder: Path, right: list[int], *, kill_before: int = 0, **values: Any) -> tuple[Run, Accuracy | None]:
    """Train for 4 epochs of 10 steps each. Return the run, and the accuracy in its last test."""
    usual = {"epochs": 4, "evaluate_every": 1, "output": str(folder / "output"), "checkpoint_every": 0.001}
    run = begin(folder / "checkpoints", **{**usual, **values})
    evaluator = evaluator_of(run, iter(right))
    make_steps(run, DATASET, make_step_of(run, kill_before=kill_before), evaluator=evaluator)
    return run, evaluator.at_end()


def test_model_is_tested_after_each_epoch_and_the_best_one_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, last = train(tmp_path, [20, 40, 30, 40])

    assert [(each.epoch, each.step, each.samples, each.accuracy) for each in run.evaluations] == [
        (1, 10, 100, 0.4),
        (2, 20, 200, 0.8),
        (3, 30, 300, 0.6),
        (4, 40, 400, 0.8),
    ]
    assert last == Accuracy(0.8, 0.9)
    # The last epoch is as good as the second, but not better. So the best model is still that of the second epoch.
    assert (tmp_path / "output/best-model.txt").read_text() == "after step 20"
    told = json.loads((tmp_path / "output/best-evaluation.json").read_text())
    assert told == {"epoch": 2, "step": 20, "samples": 200, "accuracy": 0.8, "top5_accuracy": 0.9}
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch ")]
    assert lines[:2] == [
        "epoch 1: Accuracy @ 1 = 0.4000 Accuracy @ 5 = 0.5000 [50 examples]",
        "epoch 2: Accuracy @ 1 = 0.8000 Accuracy @ 5 = 0.9000 [50 examples]",
    ]


@pytest.mark.parametrize("rank", [0, 1])
def test_model_survives_a_test_that_finds_damaged_samples(tmp_path: Path, rank: int) -> None:
    run = begin("", output=str(tmp_path))
    run.group = replace(run.group, rank=rank)
    evaluator = replace(evaluator_of(run, iter(())), count=Mock(side_effect=DataError("damaged")))

    with pytest.raises(DataError, match="damaged"):
        evaluator.at_end()

    assert [path.name for path in tmp_path.glob("model*")] == ["model.txt"] * (rank == 0)


def test_evaluations_are_in_the_record(tmp_path: Path) -> None:
    run, _ = train(tmp_path, [20, 40], evaluate_every=2)
    run.record.end("finished")

    lines = [json.loads(line) for line in (tmp_path / "output/record.jsonl").read_text().splitlines()]
    told = [line for line in lines if line["event"] == "evaluation"]
    names = ("epoch", "step", "samples", "accuracy", "top5_accuracy")
    assert [tuple(line[name] for name in names) for line in told] == [(2, 20, 200, 0.4, 0.5), (4, 40, 400, 0.8, 0.9)]


def test_run_is_tested_at_its_end_alone_by_default(tmp_path: Path) -> None:
    run, last = train(tmp_path, [30], evaluate_every=None)

    assert last == Accuracy(0.6, 0.7)
    assert run.evaluations == []
    assert not list((tmp_path / "output").glob("best*"))


def test_run_that_goes_on_after_an_epoch_makes_up_for_its_test(tmp_path: Path) -> None:
    """The last checkpoint contains the state after the epoch's last step: it is saved before the test."""
    run = begin(tmp_path / "checkpoints", epochs=4, evaluate_every=1, output=str(tmp_path / "output"))
    with pytest.raises(KeyboardInterrupt):
        make_steps(run, DATASET, make_step_of(run, kill_before=21), evaluator=evaluator_of(run, iter([20, 40])))
    # Make the checkpoint look as if the run had been killed during the second test.
    run.evaluations.pop()
    assert run.writer
    assert saving.save_last(run, run.writer) == ""

    again, last = train(tmp_path, [40, 30, 10])

    assert again.resumed_step == 20
    assert [(each.epoch, each.accuracy) for each in again.evaluations] == [(1, 0.4), (2, 0.8), (3, 0.6), (4, 0.2)]
    assert last == Accuracy(0.2, 0.3)
    assert (tmp_path / "output/best-model.txt").read_text() == "after step 20"


@pytest.mark.parametrize(
    ("first", "again", "is_told"),
    [
        pytest.param("output", "output", False, id="the-same-folder"),
        pytest.param("output", "other", True, id="another-folder"),
        pytest.param("", "output", True, id="none-before"),
        pytest.param("output", "", False, id="none-now"),
    ],
)
def test_best_model_that_only_an_earlier_start_could_write_is_told(
    first: str, again: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(tmp_path / name) if name else "" for name in (first, again)]
    run, _ = train(tmp_path, [20, 40], epochs=2, output=places[0])
    assert run.writer
    assert saving.save_last(run, run.writer) == ""
    capsys.readouterr()

    train(tmp_path, [30], epochs=3, output=places[1])

    lines = [line for line in capsys.readouterr().out.splitlines() if "does not contain the best model" in line]
    told = (
        f"output.uri: {places[1]} does not contain the best model, that of epoch 2 (Accuracy @ 1 = 0.8000), because an "
        "earlier start tested it, and the checkpoints no longer have its weights; look for it in the output.uri of "
        "that start"
    )
    assert lines == [told] * is_told


def test_test_that_a_checkpoint_has_is_not_made_again(tmp_path: Path) -> None:
    run = begin(tmp_path / "checkpoints", epochs=4, evaluate_every=1)
    run.position = Position(step=10, samples=100)
    evaluator = evaluator_of(run, iter([20]))
    assert evaluator.is_due()

    evaluator.test_between_steps()

    assert not evaluator.is_due()


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [7, 64])
def test_each_test_sample_counts_once_over_all_ranks(ranks: int, batch_size: int) -> None:
    """The fake model's first choice is the class that stands in the first pixel.

    For every second sample, this class is the right one.
    """
    labels = np.arange(TESTS) % CLASSES
    pixels = np.where(np.arange(TESTS) % 2, labels, (labels + 1) % CLASSES).astype(np.uint8)
    images = np.broadcast_to(pixels[:, None, None, None], (TESTS, 4, 4, 1)).copy()
    dataset = replace(DATASET, test=Arrays(images, labels), classes=CLASSES)
    config = Config(data="/data", epochs=1, batch_size=batch_size)

    counts = [
        count_right(logits_of(batch.images), batch.labels, batch.weights)
        for rank in range(ranks)
        for batch in evaluation_batches(config, dataset, rank=rank, ranks=ranks)
    ]

    assert tuple(map(sum, zip(*counts, strict=True))) == (TESTS // 2, TESTS)


def logits_of(images: Any) -> Any:
    """Return logits.

    The class in the first pixel has the largest logit. The next lower class (modulo CLASSES) has the second largest,
    and so on.
    """
    chosen = np.rint(images[:, 0, 0, 0] * 255).astype(int)
    return -((chosen[:, None] - np.arange(CLASSES)) % CLASSES).astype(np.float32)


def test_fifth_choice_counts_and_the_sixth_does_not() -> None:
    logits = np.tile(np.arange(10, 0, -1, dtype=np.float32), (6, 1))

    assert count_right(logits, np.array([0, 1, 3, 4, 5, 9]), np.ones(6)) == (1, 4)
    assert count_right(logits, np.array([0, 1, 3, 4, 5, 9]), np.array([0, 1, 1, 0, 1, 1])) == (0, 2)


def test_with_few_classes_every_sample_is_among_the_first_five() -> None:
    assert count_right(np.zeros((3, 2), dtype=np.float32), np.array([0, 1, 1]), np.ones(3))[1] == 3


def test_data_without_test_samples_has_no_accuracy(tmp_path: Path) -> None:
    run = begin(tmp_path / "checkpoints", epochs=1, evaluate_every=1)
    dataset: Dataset = DATASET
    assert dataset.tests == 0
    evaluator = Evaluator(run, dataset.tests, lambda: (1, 1), lambda path: None, "model")

    make_steps(run, dataset, make_step_of(run), evaluator=evaluator)

    assert evaluator.at_end() is None
    assert run.evaluations == []


def test_logits_that_are_not_numbers_are_never_right() -> None:
    logits = np.full((3, 10), np.nan, dtype=np.float32)
    logits[2, :2] = 1.0, 2.0

    assert count_right(logits, np.array([0, 0, 1]), np.ones(3)) == (1, 1)


def test_first_choice_is_among_the_first_five_of_equal_logits() -> None:
    assert count_right(np.zeros((4, 100), dtype=np.float32), np.zeros(4, dtype=int), np.ones(4)) == (4, 4)
