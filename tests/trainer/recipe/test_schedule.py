"""Compare the learning rate of each step with formulas for the schedules and for the scaling with the batch size."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distrain_trainer.config import Config
from distrain_trainer.data import Position, SampleCount
from distrain_trainer.data.sampler import part_of_epoch
from distrain_trainer.schedule import learning_rate, remarks
from tests.trainer.fixtures.counter_run import DATASET, begin

# The data has 100 samples, and each rank trains on 10 samples per step.
SAMPLES, BATCH = len(DATASET.train), 10


def config_of(**values: Any) -> Config:
    usual = {"data": "/data", "epochs": 9, "batch_size": BATCH, "learning_rate": 0.1, "rate_scaling": "none"}
    return Config(**{**usual, **values})


def rates(config: Config, steps: int, *, ranks: int = 1) -> list[float]:
    """Return the learning rate of each of a run's first steps."""
    count = SampleCount(Position(), ranks, BATCH, SAMPLES)
    return [
        learning_rate(config, step=step, ranks=ranks, samples=count.before(step), epoch_samples=SAMPLES)
        for step in range(steps)
    ]


def test_constant_rate_stays() -> None:
    assert rates(config_of(), 90) == [0.1] * 90


def test_cosine_falls_by_its_formula_after_the_warm_up() -> None:
    config = config_of(schedule="cosine", warmup=10, steps=90, epochs=None)

    rises = [0.1 * (step + 1) / 10 for step in range(10)]
    falls = [0.05 * (1 + math.cos(math.pi * (step - 10) / 80)) for step in range(10, 90)]
    assert rates(config, 90) == pytest.approx([*rises, *falls])


def test_cosine_in_epochs_is_that_in_steps() -> None:
    in_epochs = config_of(schedule="cosine", warmup_epochs=1)
    in_steps = config_of(schedule="cosine", warmup=10, steps=90, epochs=None)

    assert rates(in_epochs, 90) == pytest.approx(rates(in_steps, 90))


@pytest.mark.parametrize("ranks", [1, 3])
def test_step_multiplies_the_rate_when_each_epoch_of_the_milestones_is_over(ranks: int) -> None:
    config = config_of(schedule="step", milestones=(2, 4), decay_factor=0.5)

    of_epoch = math.ceil(SAMPLES / (ranks * BATCH))
    expected = [0.1] * 2 * of_epoch + [0.05] * 2 * of_epoch + [0.025] * of_epoch
    assert rates(config, 5 * of_epoch, ranks=ranks) == pytest.approx(expected)


# If an epoch has a multiple of 1,000 samples, a milestone with three decimals falls on a whole number of samples.
@given(
    st.decimals("0.001", 1000, places=3), st.integers(1, 10**7) | st.integers(1, 10**4).map(lambda count: count * 1000)
)
@example(Decimal("0.07"), 100)
@example(Decimal("1.1"), 10)
def test_step_begins_a_milestone_at_the_sample_of_its_decimal(milestone: Decimal, epoch_samples: int) -> None:
    config = config_of(schedule="step", milestones=(float(milestone),), decay_factor=0.5)
    first = math.ceil(Fraction(milestone) * epoch_samples)

    found = [
        learning_rate(config, step=0, ranks=1, samples=samples, epoch_samples=epoch_samples)
        for samples in (first - 1, first, first + 1)
    ]

    assert found == [0.1, 0.05, 0.05]


def test_warm_up_in_epochs_rises_over_all_samples_of_them() -> None:
    found = rates(config_of(warmup_epochs=2), 25)

    assert found == pytest.approx([0.1 * min(1, (step + 1) / 20) for step in range(25)])


def test_run_that_goes_on_at_another_size_keeps_its_place_in_the_schedule() -> None:
    config = config_of(schedule="cosine", warmup_epochs=0)
    half = Position(step=45, samples=450)

    found = {
        ranks: learning_rate(config, step=45, ranks=ranks, samples=half.samples, epoch_samples=SAMPLES)
        for ranks in (1, 2, 5)
    }

    assert found == pytest.approx(dict.fromkeys((1, 2, 5), 0.05))


@pytest.mark.parametrize(
    ("optimizer", "scaling", "factor"),
    [
        pytest.param("sgd", "auto", 4, id="sgd"),
        pytest.param("lars", "auto", 4, id="lars"),
        pytest.param("adam", "auto", 2, id="adam"),
        pytest.param("lamb", "auto", 2, id="lamb"),
        pytest.param("adam", "linear", 4, id="linear"),
        pytest.param("sgd", "sqrt", 2, id="sqrt"),
        pytest.param("sgd", "none", 1, id="none"),
    ],
)
def test_rate_grows_with_the_global_batch_as_is_meant_for_the_optimizer(
    optimizer: str, scaling: str, factor: float
) -> None:
    config = Config(steps=1, batch_size=256, learning_rate=0.1, optimizer=optimizer, rate_scaling=scaling)

    assert [learning_rate(config, step=0, ranks=ranks) for ranks in (1, 4)] == pytest.approx([0.1, 0.1 * factor])


@pytest.mark.parametrize(
    ("values", "line"),
    [
        pytest.param({"schedule": "step", "milestones": (3.0, 8.5)}, "", id="milestones"),
        pytest.param(
            {"schedule": "step", "milestones": (3.0, 9.0, 9.5)},
            "trainer.milestones: the run ends after epoch 9, so the rate does not fall after 9,9.5",
            id="late-milestones",
        ),
        pytest.param({"warmup": 90}, "", id="warm-up"),
        pytest.param(
            {"warmup": 91},
            "trainer.warmup: the run has only 90 of these 91 steps, so the learning rate does not reach its full value",
            id="long-warm-up",
        ),
        pytest.param({"warmup_epochs": 9.0}, "", id="warm-up-in-epochs"),
        pytest.param(
            {"warmup_epochs": 9.5},
            "trainer.warmupEpochs: the run has only 9 of these 9.5 epochs, so the learning rate does not reach its "
            "full value",
            id="long-warm-up-in-epochs",
        ),
        pytest.param({"warmup_epochs": 9.5, "epochs": None, "steps": 90}, "", id="unknown-epochs"),
    ],
)
def test_value_without_effect_in_a_short_run_is_told(values: dict[str, Any], line: str) -> None:
    config = config_of(**values)

    assert list(remarks(config, 90)) == [line] * bool(line)


def test_run_logs_the_values_without_effect_when_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    begin("", warmup=91)

    assert "trainer.warmup: the run has only 90 of these 91 steps" in capsys.readouterr().out


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 13), st.integers(1, 30)), min_size=1, max_size=4),
    st.integers(20, 60),
    st.booleans(),
)
def test_samples_before_a_step_are_those_of_the_steps_made(
    sizes: list[tuple[int, int, int]], samples: int, is_synthetic: bool
) -> None:
    """A loop that counts the samples of each step computes the expected number.

    `sizes` describes the segments of a run: (ranks, batch size, steps).
    """
    position = Position()
    for ranks, size, steps in sizes:
        start = position
        count = SampleCount(start, ranks, size, None if is_synthetic else samples)
        for _ in range(steps):
            assert count.before(position.step) == position.samples
            of_step = ranks * size
            if not is_synthetic:
                made = position.segments
                part = part_of_epoch(samples, size, seed=0, epoch=0, rank=0, ranks=ranks, made=made)
                of_step = part.steps[0][1]
            position = position.after_step(
                of_step, ranks=ranks, batch_size=size, epoch_samples=None if is_synthetic else samples
            )
