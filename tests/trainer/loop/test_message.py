"""Test how the outcome of a step is computed from the messages of all ranks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from distrain_trainer.loop import message, stop_flag


def message_of(loss: float, reason: int) -> np.ndarray:
    numbers = np.zeros(message.SIZE)
    numbers[0], numbers[1 + reason] = loss, 1
    return numbers


@pytest.mark.parametrize(
    ("reasons", "largest"),
    [
        ((stop_flag.NOTHING, stop_flag.NOTHING, stop_flag.NOTHING), stop_flag.NOTHING),
        ((stop_flag.NOTHING, stop_flag.SIGTERM, stop_flag.NOTHING), stop_flag.SIGTERM),
        ((stop_flag.FENCED, stop_flag.SIGTERM, stop_flag.SIGTERM), stop_flag.FENCED),
    ],
)
def test_outcome_has_the_mean_loss_and_the_largest_reason_of_all_ranks(reasons: tuple[int, ...], largest: int) -> None:
    told = np.sum([message_of(loss, reason) for loss, reason in zip((1.0, 2.0, 6.0), reasons, strict=True)], axis=0)

    outcome = message.outcome(1.0, told.tolist(), 3, 0.5)

    assert outcome == (3.0, largest, 0.5)


def test_step_that_was_left_out_has_no_mean_loss() -> None:
    outcome = message.outcome(math.nan, message_of(1.0, stop_flag.NOTHING).tolist(), 1)

    assert math.isnan(outcome.loss)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_loss_of_one_rank_that_is_not_finite_is_bad_on_all_ranks(bad: float) -> None:
    losses = (1.0, bad, 2.0)
    told = np.sum([message_of(loss, stop_flag.NOTHING) for loss in losses], axis=0)

    assert not any(math.isfinite(message.outcome(own, told.tolist(), 3).loss) for own in losses)
