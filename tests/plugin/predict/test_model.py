"""Test the model: buckets, exchanges, steps, and the constants found from measured sizes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrain.derive import models
from distrain.predict.fit import SPREAD, Measured, computing, fitted
from distrain.predict.gradients import FORWARD_SHARE, Layer, buckets, even, of_model
from distrain.predict.network import (
    HIERARCHICAL,
    RING,
    SERVERS,
    TREE,
    Network,
    Size,
    exchange_seconds,
)
from distrain.predict.step import Constants, slowest, step_seconds

BYTE = 1e-9
NETWORK = Network(within=BYTE, between=10 * BYTE, latency=1e-5)


def test_buckets_are_filled_from_the_last_layer_on() -> None:
    found = buckets([Layer(10, 0.25), Layer(20, 0.25), Layer(90, 0.25), Layer(5, 0.25)], 40)

    assert [bucket.size for bucket in found] == [30, 90, 5]
    assert [bucket.ready for bucket in found] == pytest.approx([2 / 3, 5 / 6, 1.0])


def test_nothing_is_ready_before_the_end_without_overlap() -> None:
    assert {bucket.ready for bucket in buckets(even(100), 10, overlaps=False)} == {1.0}


@pytest.mark.parametrize("name", ["vgg16", "resnet50", "mnist"])
def test_layers_of_a_model_are_all_its_parameters(name: str) -> None:
    model = models.describe(name)
    layers = of_model(model.layers, model.parameters["pytorch"])

    assert sum(number for number, _ in model.layers) == model.parameters["pytorch"]
    assert sum(layer.size for layer in layers) == pytest.approx(model.parameters["pytorch"])
    assert sum(layer.share for layer in layers) == pytest.approx(1)


def test_gradients_of_vgg16s_dense_layers_come_first() -> None:
    model = models.describe("vgg16")
    first = of_model(model.layers, 1.0)[:3]

    assert sum(layer.size for layer in first) == pytest.approx(0.894, abs=0.001)
    assert sum(layer.share for layer in first) == pytest.approx(0.008, abs=0.001)


@pytest.mark.parametrize(
    ("algorithm", "seconds"),
    [
        pytest.param(RING, 2 * 7 / 8 * 1e-2 + 14e-5, id="2(N-1)K/N-and-2(N-1)-hops"),
        pytest.param(TREE, 2 * 7 / 8 * 1e-2 + 6e-5, id="2(N-1)K/N-and-2log2(N)-hops"),
        pytest.param(HIERARCHICAL, 2 * 3 / 4 * 1e-3 + 1e-2 + 2e-5, id="within-and-between"),
        pytest.param(SERVERS, 2 * 3 / 4 * 1e-3 + 2 * (1e-2 + 1e-5), id="as-many-servers-as-workers"),
    ],
)
def test_seconds_of_an_exchange_over_two_workers_of_four_ranks(algorithm: str, seconds: float) -> None:
    assert exchange_seconds(1e6, Size(2, 4, 2), NETWORK, algorithm) == pytest.approx(seconds)


def test_half_the_servers_take_twice_as_long() -> None:
    network = Network(BYTE, BYTE, latency=0.0)

    assert exchange_seconds(1e6, Size(8, 1, 4), network, SERVERS) == pytest.approx(
        2 * exchange_seconds(1e6, Size(8, 1, 8), network, SERVERS)
    )


@pytest.mark.parametrize("algorithm", [RING, TREE, HIERARCHICAL])
def test_one_rank_exchanges_nothing_and_one_worker_uses_only_its_own_link(algorithm: str) -> None:
    assert exchange_seconds(1e6, Size(1, 1), NETWORK, algorithm) == 0
    assert exchange_seconds(1e6, Size(1, 4), NETWORK, algorithm) == pytest.approx(1.5e-3)


def test_exchange_hides_behind_the_backward_pass() -> None:
    bucketed = buckets(even(1e6, 4), 250_000)
    constants = Constants(1.0, Network(BYTE, BYTE, latency=0.0), RING)

    seconds = step_seconds(constants, bucketed, Size(2, 1))

    assert seconds == pytest.approx(1.0 + 250_000 * BYTE)


def test_slow_exchange_runs_from_the_first_bucket_on() -> None:
    bucketed = buckets(even(1e6, 4), 250_000)
    constants = Constants(1.0, Network(0.0, 1e-5, latency=0.0), RING)

    seconds = step_seconds(constants, bucketed, Size(2, 1))

    first = FORWARD_SHARE + (1 - FORWARD_SHARE) / 4
    assert seconds == pytest.approx(first + 1e6 * 1e-5)


def test_gradients_are_exchanged_once_for_several_batches() -> None:
    bucketed = buckets(even(1e6), 1e7)
    constants = Constants(1.0, Network(0.0, 1e-6, latency=0.0), RING)

    assert step_seconds(constants, bucketed, Size(2, 1), batches=4) == pytest.approx(4 + 1)


def test_slowest_of_one_worker_is_that_worker() -> None:
    assert slowest(1, 0.1) == 1
    assert slowest(100, 0.1) == pytest.approx(1 + 0.1 * math.sqrt(2 * math.log(100)))


@given(
    compute=st.floats(0.01, 10),
    link=st.floats(1e-11, 1e-8),
    workers=st.integers(2, 64),
    slots=st.integers(1, 16),
    algorithm=st.sampled_from([RING, TREE, HIERARCHICAL]),
)
def test_more_workers_never_make_a_step_shorter(
    compute: float, link: float, workers: int, slots: int, algorithm: str
) -> None:
    bucketed = buckets(even(1e8), 25e6)
    constants = Constants(compute, Network(link / 10, link), algorithm, SPREAD)
    seconds = [step_seconds(constants, bucketed, Size(number, slots)) for number in (1, workers, 2 * workers)]

    assert seconds == sorted(seconds)


@given(
    compute=st.floats(0.05, 2),
    within=st.floats(1e-11, 1e-10),
    between=st.floats(1e-10, 1e-8),
    algorithm=st.sampled_from([TREE, HIERARCHICAL]),
)
def test_constants_of_a_run_are_found_again(compute: float, within: float, between: float, algorithm: str) -> None:
    bucketed = buckets(even(4e8), 25e6, overlaps=False)
    true = Constants(compute, Network(within, between), algorithm, SPREAD)
    sizes = [Size(1, 1), Size(1, 8), Size(2, 8)]
    measured = [Measured(size, step_seconds(true, bucketed, size)) for size in sizes]

    found = fitted(bucketed, measured, algorithm)

    assert found.compute == pytest.approx(compute)
    assert found.network.within == pytest.approx(within, rel=1e-3)
    assert found.network.between == pytest.approx(between, rel=1e-3)


def test_spread_of_the_workers_is_found_from_two_sizes() -> None:
    bucketed = buckets(even(1e6), 1e7)
    true = Constants(1.0, Network(0.0, 1e-12), TREE, 0.04)
    sizes = [Size(1, 8), Size(2, 8), Size(4, 8)]

    found = fitted(bucketed, [Measured(size, step_seconds(true, bucketed, size)) for size in sizes])

    assert found.spread == pytest.approx(0.04, abs=0.006)


def test_hierarchical_exchange_is_seen_from_two_sizes() -> None:
    bucketed = buckets(even(4e8), 25e6)
    true = Constants(0.1, Network(0.0, 1e-9), HIERARCHICAL)
    sizes = [Size(1, 8), Size(2, 8), Size(4, 8)]

    found = fitted(bucketed, [Measured(size, step_seconds(true, bucketed, size)) for size in sizes])

    assert found.algorithm == HIERARCHICAL


def test_compute_time_is_what_the_exchange_leaves_of_a_step() -> None:
    bucketed = buckets(even(4e8), 25e6)
    true = Constants(0.3, Network(1e-11, 1e-9), TREE, SPREAD)
    measured = Measured(Size(4, 8), step_seconds(true, bucketed, Size(4, 8)))

    found = computing(bucketed, measured, Constants(0.0, true.network, TREE, SPREAD))

    assert found.compute == pytest.approx(0.3, rel=1e-6)
