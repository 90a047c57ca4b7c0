"""Test that the predictions for the published measurements stay within the documented errors."""

from __future__ import annotations

from statistics import mean, median

import pytest

from distrain.derive import models
from distrain.predict.constants import REACHED
from distrain.predict.fit import Measured, computing
from distrain.predict.gradients import buckets, of_model
from distrain.predict.network import RING, Network, Size
from distrain.predict.step import Constants, step_seconds
from tests.plugin.predict.published import BUCKET, MOST_FITTED, scores, tables
from tests.plugin.predict.table import PAGE, page, reached


def test_enough_is_published() -> None:
    counted = [table for table in tables() if not table.left_out]

    assert len(counted) >= 6
    assert len(scores()) >= 60
    assert max(score.ranks for score in scores()) == 512
    assert sum(score.efficiency < 0.8 for score in scores()) >= len(scores()) / 3


def test_mean_error_is_small_and_at_most_half_of_constant_efficiencys() -> None:
    error, constant = (mean(abs(each) for each in errors) for errors in zip(*_errors(), strict=True))

    assert error <= 0.05
    assert error <= constant / 2


def _errors() -> list[tuple[float, float]]:
    return [(score.error, score.constant) for score in scores()]


def test_no_prediction_misses_by_more_than_15_percent() -> None:
    assert [score for score in scores() if abs(score.error) > 0.15] == []


def test_only_the_smallest_sizes_are_fitted() -> None:
    for series in (each for table in tables() for each in table.series):
        several = [index for index in series.fitted if series.measured[index].size.workers > 1]

        assert len(series.fitted) <= MOST_FITTED
        assert len(several) <= 2
        assert min(series.scored) > max(series.fitted)


def test_mpijob_of_two_workers_with_four_gpus_fits_a_network_of_100_gbits_but_not_of_25() -> None:
    """The 8 ranks of this job together reached 6511.22 images/sec, which is 814 images/sec per rank.

    The job's log contains only this size, so no prediction for another size can be compared.
    """
    assert _rate(100e9) == pytest.approx(6511.22, rel=1e-3)
    assert _rate(25e9) == pytest.approx(3296, rel=1e-2)


def _rate(bandwidth: float) -> float:
    """Return the images/sec of VGG16 on 8 ranks with fp16 gradients, if one rank computes 814 images/sec."""
    model = models.describe("vgg16")
    bucketed = buckets(of_model(model.layers, model.parameters["tensorflow"] * 2), BUCKET)
    measured = Measured(Size(2, 4), 64 / 814)
    constants = computing(bucketed, measured, Constants(0.0, Network(0.0, 8 / bandwidth), RING))
    return measured.size.ranks * 64 / step_seconds(constants, bucketed, measured.size)


def test_page_has_these_errors() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it with `make docs`"


def test_share_of_a_bandwidth_that_is_assumed_is_that_of_the_published_runs() -> None:
    assert round(median(reached().values()), 2) == REACHED
