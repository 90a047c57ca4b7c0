"""Test how a total number of GPUs is split over equal workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrain.derive.split import Limits, Split, first, nearest, splits, whole_nodes


def anywhere(_: Split) -> bool:
    return True


@pytest.mark.parametrize(
    ("total", "node", "expected"),
    [
        pytest.param(32, 8, Split(4, 8), id="whole-nodes"),
        pytest.param(8, 8, Split(1, 8), id="one-node"),
        pytest.param(4, 8, Split(1, 4), id="part-of-a-node"),
        pytest.param(12, 8, Split(2, 6), id="two-equal-parts-not-8-and-4"),
        pytest.param(13, 8, Split(13, 1), id="prime"),
    ],
)
def test_total_goes_to_the_fewest_equal_workers(total: int, node: int, expected: Split) -> None:
    assert first(total, Limits(node), anywhere) == expected


@given(total=st.integers(1, 4000), node=st.integers(1, 16))
def test_split_is_even_on_one_node_each_and_has_the_fewest_workers(total: int, node: int) -> None:
    found = list(splits(total, Limits(node)))

    assert all(split.total == total and split.gpus <= node and split.replicas <= 1000 for split in found)
    sizes = [gpus for gpus in range(node, 0, -1) if total % gpus == 0 and total // gpus <= 1000]
    assert [split.gpus for split in found] == sizes


@given(total=st.integers(1, 60), node=st.integers(1, 5), replicas=st.none() | st.integers(1, 9), most=st.integers(1, 9))
def test_nearest_totals_have_none_nearer(total: int, node: int, replicas: int | None, most: int) -> None:
    limits = Limits(node, most=most, replicas=replicas)

    found = nearest(total, limits, anywhere)

    totals = [other for other in range(1, 9 * 5 + 1) if other != total and first(other, limits, anywhere)]
    below, above = ([other for other in totals if other < total], [other for other in totals if other > total])
    assert [split.total for split in found] == below[-1:] + above[:1]


@pytest.mark.parametrize(
    ("total", "limits", "expected"),
    [
        pytest.param(12, Limits(8, gpus=8), [Split(1, 8), Split(2, 8)], id="gpus-fixed"),
        pytest.param(32, Limits(8, replicas=3), [Split(3, 8)], id="nothing-above"),
        pytest.param(2, Limits(8, fewest=4), [Split(4, 1)], id="nothing-below"),
        pytest.param(2, Limits(8, fewest=4, gpus=8), [Split(4, 8)], id="gpus-fixed-and-nothing-below"),
        pytest.param(1009, Limits(8), [Split(126, 8), Split(202, 5)], id="more-workers-than-the-schema-allows"),
    ],
)
def test_total_without_an_even_split_has_the_nearest_ones(total: int, limits: Limits, expected: list[Split]) -> None:
    assert first(total, limits, anywhere) is None

    assert nearest(total, limits, anywhere) == expected


def test_totals_that_fill_whole_nodes_are_offered_on_both_sides() -> None:
    assert whole_nodes(30, 8) == [24, 32]
    assert whole_nodes(3, 8) == [8]
    assert whole_nodes(32, 8) == []
