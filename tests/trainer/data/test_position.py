"""Test that each sample is used once per epoch, even if a run is interrupted and its number of ranks changes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, Position, SampleCount, count_steps, train_batches
from distrain_trainer.data.idx import Arrays
from distrain_trainer.data.sampler import Segment, part_of_epoch
from tests.trainer.fixtures.counter_run import DATASET

SHARDS = {"each-for-itself": lambda samples: (), "in-a-row": lambda samples: (samples // 3, 0, samples - samples // 3)}


def steps_of(
    samples: int, batch: int, ranks: int, made: tuple[Segment, ...], shards: tuple[int, ...], epoch: int = 0
) -> Iterator[tuple[list[int], int]]:
    """For each step, yield the samples of all ranks, and the number of samples that each rank reports for the step."""
    parts = [
        part_of_epoch(samples, batch, seed=3, epoch=epoch, rank=rank, ranks=ranks, shards=shards, made=made)
        for rank in range(ranks)
    ]
    for steps in zip(*(part.steps for part in parts), strict=True):
        totals = {total for _, total in steps}
        assert len(totals) == 1
        yield [int(sample) for chosen, _ in steps for sample in chosen], totals.pop()
    for part in parts:
        assert sorted(part.reading) == sorted(sample for chosen, _ in part.steps for sample in chosen)


@pytest.mark.parametrize("kind", SHARDS)
@pytest.mark.parametrize("case", range(40))
def test_each_sample_is_trained_on_once_per_epoch_at_any_sequence_of_sizes(kind: str, case: int) -> None:
    choice = random.Random(case)
    samples = choice.randint(1, 400)
    position, trained = Position(), list[int]()

    for _ in range(1000):
        ranks, batch, steps = choice.randint(1, 5), choice.randint(1, 16), choice.randint(0, 6)
        of_epoch = steps_of(samples, batch, ranks, position.segments, SHARDS[kind](samples))
        for chosen, total in list(of_epoch)[:steps]:
            assert len(chosen) == total
            trained += chosen
            position = position.after_step(total, ranks=ranks, batch_size=batch, epoch_samples=samples)
        if position.segments == () and position.step:
            break

    assert sorted(trained) == list(range(samples))
    assert position.samples == samples


@pytest.mark.parametrize("kind", SHARDS)
@pytest.mark.parametrize("interrupted_after", [1, 4, 7])
def test_run_that_goes_on_at_its_size_trains_on_what_it_would_have(kind: str, interrupted_after: int) -> None:
    shards = SHARDS[kind](200)
    unbroken = list(steps_of(200, 8, 3, (), shards))

    rest = list(steps_of(200, 8, 3, (Segment(3, 8, interrupted_after),), shards))

    assert rest == unbroken[interrupted_after:]


def test_later_segment_reads_forwards_through_each_shard() -> None:
    part = part_of_epoch(
        4000, 8, seed=0, epoch=0, rank=0, ranks=3, shards=(1000,) * 4, made=(Segment(2, 8, 30), Segment(4, 4, 20))
    )

    shards = part.reading // 1000
    for shard in set(shards):
        mine = part.reading[shards == shard]
        assert np.all(np.diff(mine) > 0)
    assert np.count_nonzero(np.diff(shards)) == len(set(shards)) - 1


@pytest.mark.parametrize("case", range(20))
def test_run_in_epochs_ends_after_them_at_any_sequence_of_sizes(case: int) -> None:
    choice = random.Random(case)
    images = np.zeros((50, 4, 4, 1), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(50)
    dataset = Dataset(Arrays(images, np.zeros(50, dtype=np.int64)), None, classes=1)
    position, trained = Position(), list[int]()

    while True:
        ranks, config = choice.randint(1, 4), Config(data="/data", epochs=3, batch_size=choice.randint(1, 12))
        steps = count_steps(config, dataset, ranks=ranks, start=position)
        if steps == position.step:
            break
        parts = [train_batches(config, dataset, rank=rank, ranks=ranks, start=position) for rank in range(ranks)]
        for _ in range(min(choice.randint(1, 9), steps - position.step)):
            batches = [next(part) for part in parts]
            trained += [round(image[0, 0, 0] * 255) for batch in batches for image in batch.images[: batch.samples]]
            position = position.after_step(
                batches[0].global_samples, ranks=ranks, batch_size=config.batch_size, epoch_samples=50
            )

    assert position == Position(position.step, 150)
    for epoch in range(3):
        assert sorted(trained[50 * epoch : 50 * (epoch + 1)]) == list(range(50))


@pytest.mark.parametrize("case", range(20))
def test_samples_before_each_step_are_those_of_the_steps_made(case: int) -> None:
    choice = random.Random(case)
    samples, batch, ranks = choice.randint(20, 200), choice.randint(1, 9), choice.randint(1, 4)
    made = (Segment(2, 3, 2), Segment(ranks, batch, choice.randint(0, 1)))
    left = [total for _, total in steps_of(samples, batch, ranks, made, ())]
    start = Position(10, 5 * samples + samples - sum(left), made)
    later = [total for epoch in (6, 7) for _, total in steps_of(samples, batch, ranks, (), (), epoch)]

    count = SampleCount(start, ranks, batch, samples)

    totals = [count.before(10 + step) for step in range(len(left) + len(later) + 1)]
    assert totals == [start.samples + sum([*left, *later][:step]) for step in range(len(totals))]
    assert totals[-1] == 8 * samples


def test_samples_before_a_step_of_synthetic_data_are_whole_batches() -> None:
    assert SampleCount(Position(2, 30), 3, 5, None).before(4) == 30 + 2 * 3 * 5


def test_run_past_its_epochs_makes_no_step() -> None:
    start = Position(13, 2 * len(DATASET.train) + 5, (Segment(1, 5, 1),))

    assert count_steps(Config(data="/data", epochs=2, batch_size=5), DATASET, ranks=1, start=start) == 13


def test_number_of_steps_in_the_values_is_that_of_the_run() -> None:
    assert count_steps(Config(data="/data", steps=77, batch_size=5), DATASET, ranks=2) == 77


def test_synthetic_data_has_no_epoch_that_ends() -> None:
    position = Position()

    for _ in range(3):
        position = position.after_step(8, ranks=2, batch_size=4, epoch_samples=None)

    assert position == Position(3, 24, (Segment(2, 4, 3),))
