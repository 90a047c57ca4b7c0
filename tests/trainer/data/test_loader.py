"""Test how many batches are read ahead, and how damaged samples are counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, count_steps, train_batches
from distrain_trainer.data.idx import Arrays
from distrain_trainer.data.loader import Damage
from distrain_trainer.data.sampler import Indices, Part
from distrain_trainer.data.samples import Pixels, Work
from distrain_trainer.errors import DamagedSampleError, DataError

IMAGES = np.zeros((2000, 1, 1, 1), dtype=np.uint8)
LABELS = np.zeros(2000, dtype=np.int64)


class Counted(Arrays):
    """Samples that count how many of their batches have been read."""

    read = 0

    def works(self, part: Part) -> Iterator[list[Work]]:
        for works in super().works(part):
            self.read += 1
            yield works


@pytest.mark.parametrize(("batch_size", "ahead"), [(8, 8), (32, 2), (100, 2)])
def test_so_many_batches_are_read_ahead(batch_size: int, ahead: int) -> None:
    samples = Counted(IMAGES, LABELS)
    config = Config(data="/data", batch_size=batch_size, epochs=1)

    batches = train_batches(config, Dataset(samples, test=None, classes=1), rank=0, ranks=1)
    next(batches)

    deadline = time.monotonic() + 60
    while samples.read < 1 + ahead and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert samples.read == 1 + ahead


class Slow(Arrays):
    """Samples that make the reader wait at the second batch until the test sets `released`."""

    released = threading.Event()

    def works(self, part: Part) -> Iterator[list[Work]]:
        yield [lambda images, labels: None]
        yield [self._wait]

    def _wait(self, images: Pixels, labels: Indices) -> None:
        self.released.wait(60)


def test_end_of_the_batches_does_not_wait_for_what_is_read_ahead() -> None:
    samples = Slow(IMAGES[:2], LABELS[:2])
    config = Config(data="/data", batch_size=1, epochs=1)
    batches = train_batches(config, Dataset(samples, test=None, classes=1), rank=0, ranks=1)
    next(batches)
    timer = threading.Timer(5, samples.released.set)
    timer.start()

    batches.close()  # type: ignore[attr-defined]

    assert not samples.released.is_set()
    samples.released.set()
    timer.cancel()


@pytest.mark.parametrize(
    ("samples", "share", "most"), [(100, 0.29, 29), (100, 0.57, 57), (999, 0.001, 0), (3, 1, 3), (10_000, 1e-4, 1)]
)
def test_share_that_may_be_damaged_is_the_decimal_that_was_given(samples: int, share: float, most: int) -> None:
    damage = Damage(samples, share)

    for number in range(most):
        damage.count(DamagedSampleError(str(number)))

    with pytest.raises(DataError):
        damage.count(DamagedSampleError("one more"))


def test_damaged_sample_counts_once_however_often_it_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    damage = Damage(200, 0.01)

    for name in ("a", "b", "a", "b", "a"):
        damage.count(DamagedSampleError(name))

    assert capsys.readouterr().out == "left out: a (1 of at most 2)\nleft out: b (2 of at most 2)\n"
    with pytest.raises(DataError, match=r"^c, or raise data\.maxBadShare, which lets 2 of 200 samples be damaged$"):
        damage.count(DamagedSampleError("c"))


@pytest.mark.parametrize(("samples", "share"), [(47, 0.001), (2000, 0.0)], ids=["few-samples", "share-of-0"])
def test_first_damaged_sample_that_is_not_allowed_is_told_with_the_value(samples: int, share: float) -> None:
    expected = rf"^a, or raise data\.maxBadShare, which lets 0 of {samples} samples be damaged$"

    with pytest.raises(DataError, match=expected):
        Damage(samples, share).count(DamagedSampleError("a"))


def test_synthetic_data_takes_the_steps_of_the_config() -> None:
    dataset = Dataset(Arrays(IMAGES, LABELS), test=None, classes=1)

    assert count_steps(Config(steps=7, batch_size=4000), dataset, ranks=2) == 7
