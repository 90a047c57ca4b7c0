"""Test that each sample occurs exactly once per epoch on any number of ranks, in an order that depends on the seed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from distrain_trainer.data.sampler import (
    Segment,
    count_steps_left,
    order_of_shards,
    part_of_epoch,
    part_of_tests,
    split,
    through_buffer,
)


def indices_of(
    rank: int, *, samples: int, batch: int, ranks: int, seed: int = 0, epoch: int = 0, shards: tuple[int, ...] = ()
) -> list[int]:
    part = part_of_epoch(samples, batch, seed=seed, epoch=epoch, rank=rank, ranks=ranks, shards=shards)
    return [int(index) for chosen, _ in part.steps for index in chosen]


@pytest.mark.parametrize("shards", [(), "one", "many"], ids=["each-for-itself", "one-shard", "many-shards"])
@pytest.mark.parametrize(
    ("samples", "batch", "ranks"),
    [
        pytest.param(64, 8, 1, id="one-rank"),
        pytest.param(64, 8, 2, id="even"),
        pytest.param(67, 8, 4, id="last-batch-smaller"),
        pytest.param(33, 8, 4, id="last-batch-empty-on-three-ranks"),
        pytest.param(4, 8, 4, id="one-short-batch"),
        pytest.param(3, 8, 4, id="one-rank-without"),
    ],
)
def test_each_sample_is_trained_on_once_per_epoch(samples: int, batch: int, ranks: int, shards: str) -> None:
    sizes = {"one": (samples,), "many": (1, 0, samples - 2, 1)}.get(shards, ())

    parts = [indices_of(rank, samples=samples, batch=batch, ranks=ranks, shards=sizes) for rank in range(ranks)]

    assert sorted(itertools.chain(*parts)) == list(range(samples))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(("samples", "batch", "ranks"), [(64, 8, 2), (67, 8, 4), (33, 8, 4), (7, 2, 3)])
def test_ranks_make_as_many_steps_and_know_what_they_have_together(samples: int, batch: int, ranks: int) -> None:
    parts = [part_of_epoch(samples, batch, seed=1, epoch=2, rank=rank, ranks=ranks) for rank in range(ranks)]

    for steps in zip(*(part.steps for part in parts), strict=True):
        assert {total for _, total in steps} == {sum(len(chosen) for chosen, _ in steps)}
        assert all(len(chosen) <= batch for chosen, _ in steps)


@pytest.mark.parametrize("shards", [(), (40, 24)], ids=["each-for-itself", "shards"])
def test_order_changes_with_the_epoch_and_the_seed_alone(shards: tuple[int, ...]) -> None:
    first = indices_of(0, samples=64, batch=8, ranks=2, shards=shards)

    again = indices_of(0, samples=64, batch=8, ranks=2, shards=shards)
    next_epoch = indices_of(0, samples=64, batch=8, ranks=2, epoch=1, shards=shards)
    other_seed = indices_of(0, samples=64, batch=8, ranks=2, seed=1, shards=shards)

    assert again == first
    assert next_epoch != first
    assert other_seed != first


def test_rank_reads_few_shards_and_each_in_a_row() -> None:
    sizes = (100,) * 40

    part = part_of_epoch(4000, 8, seed=0, epoch=0, rank=1, ranks=4, shards=sizes)

    later = part_of_epoch(4000, 8, seed=0, epoch=1, rank=1, ranks=4, shards=sizes)
    assert len(set(part.reading // 100)) == 10
    assert set(later.reading // 100) != set(part.reading // 100)
    breaks = np.flatnonzero(np.diff(part.reading) != 1)
    assert len(breaks) <= 9
    assert set(part.reading % 100) == set(range(100))


def test_shards_have_another_order_in_another_epoch_and_with_another_seed() -> None:
    sizes = (2, 3) * 10

    orders = [order_of_shards(sizes, seed=seed, epoch=epoch).tolist() for seed, epoch in ((0, 0), (0, 1), (1, 0))]

    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert order_of_shards(sizes, seed=0, epoch=0).tolist() == orders[0]


def test_buffer_holds_no_more_than_its_size() -> None:
    run = np.arange(1000, 1100)

    drawn = through_buffer(run, 10, np.random.default_rng(0))

    assert sorted(drawn) == list(run)
    assert all(sample - 1000 < place + 10 for place, sample in enumerate(drawn))
    assert any(sample - 1000 < place - 10 for place, sample in enumerate(drawn))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_each_test_sample_is_used_once_in_its_order(ranks: int) -> None:
    parts = [part_of_tests(5, 2, rank=rank, ranks=ranks) for rank in range(ranks)]

    assert [int(index) for part in parts for chosen, _ in part.steps for index in chosen] == [0, 1, 2, 3, 4]
    assert {part.epoch for part in parts} == {0}


@pytest.mark.parametrize(
    ("made", "left"),
    [
        pytest.param((), 9, id="none"),
        pytest.param((Segment(2, 2, 2),), 1, id="on-other-ranks"),
        pytest.param((Segment(2, 2, 1), Segment(1, 1, 3)), 2, id="on-other-ranks-then-on-these"),
    ],
)
def test_steps_left_are_those_of_the_samples_left(made: tuple[Segment, ...], left: int) -> None:
    assert count_steps_left(9, 1, ranks=1, made=made) == left


def test_last_segment_goes_on_if_it_is_of_this_size() -> None:
    first, last = Segment(2, 4, 5), Segment(3, 4, 2)

    assert split((first, last), 4, ranks=3) == ((first,), 2)
    assert split((first, last), 4, ranks=2) == ((first, last), 0)
    assert split((), 4, ranks=2) == ((), 0)
