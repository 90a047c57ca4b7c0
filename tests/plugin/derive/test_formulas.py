"""Compare each formula with a published example and with the trainer's own computation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrain.derive import figures, formulas
from distrain.derive.models import describe
from distrain_trainer import schedule
from distrain_trainer.config import Config
from distrain_trainer.data.sampler import part_of_epoch
from distrain_trainer.recipe import OPTIMIZERS, RATE_SCALINGS

small = st.integers(min_value=1, max_value=40)


@pytest.mark.parametrize(
    ("batch", "rate"),
    [
        pytest.param(256, 0.1, id="8-gpus"),
        pytest.param(8192, 3.2, id="256-gpus"),
    ],
)
def test_learning_rate_scales_as_goyal_and_others_published_it(batch: int, rate: float) -> None:
    assert formulas.scaled_rate(0.1, batch) == pytest.approx(rate)


@given(
    optimizer=st.sampled_from(OPTIMIZERS),
    scaling=st.sampled_from(RATE_SCALINGS),
    ranks=small,
    batch_size=small,
    step=st.integers(0, 50),
    warmup=st.integers(0, 30),
)
def test_learning_rate_is_the_trainers_after_its_warmup(
    optimizer: str, scaling: str, ranks: int, batch_size: int, step: int, warmup: int
) -> None:
    config = Config(
        batch_size=batch_size, learning_rate=0.1, warmup=warmup, steps=1, optimizer=optimizer, rate_scaling=scaling
    )

    batch = formulas.global_batch(ranks, batch_size)
    rate = formulas.scaled_rate(0.1, batch, figures._scaling(scaling, optimizer))

    assert rate == pytest.approx(schedule.learning_rate(config, step=warmup + step, ranks=ranks))
    assert formulas.BASE_BATCH == schedule.BASE_BATCH


def test_imagenet_passes_in_the_published_number_of_steps() -> None:
    assert formulas.steps_per_epoch(1_281_167, 256) == 5005


@given(samples=st.integers(40, 500), ranks=small, batch_size=small)
def test_steps_of_an_epoch_equal_the_trainers(samples: int, ranks: int, batch_size: int) -> None:
    part = part_of_epoch(samples, batch_size, seed=0, epoch=0, rank=0, ranks=ranks)

    assert formulas.steps_per_epoch(samples, formulas.global_batch(ranks, batch_size)) == len(part.steps)


def test_world_size_counts_every_slot() -> None:
    assert formulas.world_size(4, 8) == 32


@pytest.mark.parametrize(
    ("ranks", "times"),
    [pytest.param(1, 0, id="alone"), pytest.param(2, 1, id="two"), pytest.param(8, 1.75, id="eight")],
)
def test_rank_sends_two_n_minus_one_nths_of_the_gradients(ranks: int, times: float) -> None:
    assert formulas.all_reduce_bytes(1000, ranks) == pytest.approx(times * 1000)


@given(size=st.integers(1, 10**12), ranks=st.integers(1, 100_000))
def test_rank_never_sends_twice_the_gradients(size: int, ranks: int) -> None:
    assert formulas.all_reduce_bytes(size, ranks) < 2 * size


def test_one_server_sends_the_weights_to_all_workers() -> None:
    assert formulas.server_bytes(1000, workers=8, servers=1) == 8000
    assert formulas.server_bytes(1000, workers=8, servers=8) == 1000


def test_gradients_of_vgg16_are_half_a_gigabyte() -> None:
    assert formulas.gradient_bytes(describe("vgg16").parameters["pytorch"]) == 553_430_176


@pytest.mark.parametrize(
    ("gpus", "hours"), [pytest.param(16_384, 1.8, id="16k"), pytest.param(131_072, 0.23, id="131k")]
)
def test_large_jobs_fail_as_often_as_kokolis_and_others_expect(gpus: int, hours: float) -> None:
    assert 24 * formulas.job_mtbf(formulas.GPU_DAYS_BETWEEN_FAILURES, gpus) == pytest.approx(hours, abs=0.006)


@pytest.mark.parametrize(
    ("mtbf", "interval"),
    [
        pytest.param(24 * 60, 117, id="a-failure-a-day"),
        pytest.param(6 * 60, 57, id="four-a-day"),
        pytest.param(15, 9.1, id="four-an-hour"),
    ],
)
def test_dump_of_five_minutes_comes_as_often_as_in_dalys_figures(mtbf: float, interval: float) -> None:
    # The expected intervals are read from figures 3 to 5 of Daly 2006. All times are in minutes.
    assert formulas.checkpoint_interval(5, mtbf) == pytest.approx(interval, rel=0.006)


@given(cost=st.floats(0.1, 100), mtbf=st.floats(1e4, 1e7), other=st.floats(0.1, 10))
def test_no_other_interval_between_checkpoints_loses_less(cost: float, mtbf: float, other: float) -> None:
    # Daly's cost function without restarts: seconds of wall-clock time per second of useful work.
    def passed(interval: float) -> float:
        return mtbf * math.expm1((interval + cost) / mtbf) / interval

    best = formulas.checkpoint_interval(cost, mtbf)

    assert passed(best) <= passed(best * other) * (1 + 1e-5)


def test_checkpoints_that_take_longer_than_failures_stay_away_come_as_often_as_these() -> None:
    assert formulas.checkpoint_interval(10, 5) == 5


def test_checkpoint_holds_weights_and_the_optimizers_state() -> None:
    assert formulas.checkpoint_bytes(1000, "sgd") == 8000
    assert formulas.checkpoint_bytes(1000, "adam") == 12000


def test_ring_of_eight_at_ten_gigabits() -> None:
    # Each rank sends 1.75 GB at 1.25 GB/s.
    assert formulas.ring_seconds(1e9, 8, 10e9) == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("servers", "seconds"),
    [
        pytest.param(1, 12.8, id="servers-link-is-busiest"),
        pytest.param(16, 1.6, id="workers-link-is-busiest"),
    ],
)
def test_busiest_link_decides_with_a_parameter_server(servers: int, seconds: float) -> None:
    assert formulas.server_seconds(1e9, 8, servers, 10e9) == pytest.approx(seconds)


def test_share_of_a_step_is_of_both_together() -> None:
    assert formulas.communication_share(1.0, 3.0) == 0.25
