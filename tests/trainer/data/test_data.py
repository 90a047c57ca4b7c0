"""Test the number of steps, the shape of the batches, and how valid and damaged idx files are read."""

from __future__ import annotations

import gzip
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, count_steps, load, train_batches
from distrain_trainer.data.idx import Arrays, parse_idx
from distrain_trainer.errors import DataError, StorageError
from lab.datasets.digits import write_digits, write_idx
from lab.datasets.pictures import numbered, write_image_folder, write_shards

SYNTHETIC = Config(steps=100, batch_size=8)


def config_of(data: Path | str = "/data", *, batch_size: int = 8, epochs: int = 1) -> Config:
    return Config(data=str(data), batch_size=batch_size, epochs=epochs)


def dataset_of(samples: int) -> Dataset:
    """Return a data set in which every sample has a different label."""
    images = np.zeros((samples, 8, 8, 1), dtype=np.uint8)
    return Dataset(Arrays(images, np.arange(samples)), test=None, classes=samples)


def test_batches_have_one_shape_and_pixels_from_0_to_1() -> None:
    images = np.full((11, 8, 8, 1), 255, dtype=np.uint8)
    dataset = Dataset(Arrays(images, np.zeros(11, dtype=np.int64)), test=None, classes=1)

    batches = list(itertools.islice(train_batches(config_of(batch_size=8), dataset, rank=0, ranks=1), 2))

    assert [batch.images.shape for batch in batches] == [(8, 8, 8, 1)] * 2
    assert [batch.samples for batch in batches] == [8, 3]
    assert batches[0].images.max() == 1.0


def test_last_batch_is_filled_up_with_its_own_images_which_weigh_nothing() -> None:
    images = np.arange(1, 6, dtype=np.uint8).repeat(64).reshape(5, 8, 8, 1)
    dataset = Dataset(Arrays(images, np.zeros(5, dtype=np.int64)), test=None, classes=1)

    _, last = itertools.islice(train_batches(config_of(batch_size=4), dataset, rank=0, ranks=1), 2)

    assert last.samples == 1
    assert last.weights.tolist() == [1, 0, 0, 0]
    assert len(np.unique(last.images)) == 1
    assert last.images.min() > 0


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kind", ["images", "idx", "synthetic", "shards"])
def test_cache_of_data_without_shards_is_said_by_rank_0(
    rank: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    write = {
        "images": lambda folder: write_image_folder(folder, numbered(6)),
        "idx": write_digits,
        "shards": lambda folder: write_shards(folder, numbered(6), (3, 3)),
    }
    (tmp_path / "data").mkdir()
    if kind != "synthetic":
        write[kind](tmp_path / "data")
    data = "synthetic" if kind == "synthetic" else str(tmp_path / "data")
    length: Any = {"steps": 1} if kind == "synthetic" else {"epochs": 1}

    load(Config(data=data, cache=str(tmp_path / "cache"), **length))

    told = (
        f"data.cache.folder: {tmp_path}/cache stays empty, because only tar shards are cached, and data.uri ({data}) "
        "has none\n"
    )
    assert capsys.readouterr().err == (told if rank == 0 and kind != "shards" else "")


def test_epochs_count_the_last_short_batch_as_a_step() -> None:
    assert count_steps(config_of(batch_size=32, epochs=20), dataset_of(1437), ranks=2) == 20 * 23


def test_global_batch_of_all_samples_is_accepted() -> None:
    assert count_steps(config_of(batch_size=8), dataset_of(16), ranks=2) == 1


def test_global_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(DataError, match=r"^trainer\.batchSize: each step needs 18 samples .* has 16; lower .* to 8"):
        count_steps(config_of(batch_size=9), dataset_of(16), ranks=2)


def test_more_ranks_than_samples_are_refused() -> None:
    with pytest.raises(DataError, match=r"^workers\.replicas: 5 ranks are more than the 4 training samples"):
        count_steps(config_of(batch_size=1), dataset_of(4), ranks=5)


def test_digits_are_read_whole(digits: Path) -> None:
    dataset = load(config_of(digits))

    assert isinstance(dataset.train, Arrays)
    assert dataset.train.images.shape == (1437, 8, 8, 1)
    assert dataset.train.images.max() == 255
    assert dataset.shape == (8, 8, 1)
    assert dataset.tests == 360
    assert dataset.classes == 10


def test_synthetic_data_is_the_same_batch_every_step() -> None:
    dataset = load(SYNTHETIC)

    first, second = itertools.islice(train_batches(SYNTHETIC, dataset, rank=1, ranks=2), 2)

    assert first.images.shape == (8, 28, 28, 1)
    assert first is second
    assert first.global_samples == 16


def test_missing_file_is_named_with_what_is_there(tmp_path: Path) -> None:
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", np.zeros((1, 8, 8), dtype=np.uint8))

    with pytest.raises(
        StorageError, match=r"^data\.uri: .* has no train-labels-idx1-ubyte\.gz \(it holds train-images"
    ):
        load(config_of(tmp_path))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _break_the_stream(path: Path) -> None:
    # The first byte after the header of gzip contains the type of the first compressed block. Overwrite it with a block
    # type that does not exist.
    content = path.read_bytes()
    path.write_bytes(content[:10] + b"\xff" + content[11:])


def _not_gzip(path: Path) -> None:
    path.write_bytes(b"<html>not found</html>")


def _short_inside(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [_truncate, _flip_a_byte, _break_the_stream, _not_gzip, _short_inside, _empty])
def test_damaged_file_is_named(damage: object, digits: Path, tmp_path: Path) -> None:
    for path in digits.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert callable(damage)
    damage(tmp_path / "train-images-idx3-ubyte.gz")

    with pytest.raises(
        DataError, match=r"^data\.uri: /.*/train-images-idx3-ubyte\.gz is damaged \(.+\); upload it again"
    ):
        load(config_of(tmp_path))


def test_labels_in_the_place_of_images_are_refused() -> None:
    labels = bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 7])

    with pytest.raises(ValueError, match="it starts with 00000801, not with 00000803"):
        parse_idx(labels, dimensions=3)

    assert parse_idx(labels, dimensions=1).tolist() == [7, 7]


def test_images_and_labels_of_different_counts_are_refused(digits: Path, tmp_path: Path) -> None:
    for path in digits.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes((digits / "t10k-labels-idx1-ubyte.gz").read_bytes())

    with pytest.raises(DataError, match=r"^data\.uri: .* has 1437 images in .* and 360 labels"):
        load(config_of(tmp_path))


def test_images_that_the_model_cannot_take_are_refused(digits: Path) -> None:
    config = Config(model="vgg16", data=str(digits), epochs=1)

    with pytest.raises(DataError, match=r"^trainer\.model: vgg16 takes images of 224x224x3, and data\.uri holds 8x8x1"):
        load(config)


def write_samples(folder: Path, *, train: tuple[int, int, int], test: tuple[int, int, int]) -> None:
    for part, shape in (("train", train), ("t10k", test)):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", np.zeros(shape, dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.zeros(shape[0], dtype=np.uint8))


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        pytest.param((2, 3, 9), (1, 3, 9), "images of 3x9x1 are too small for trainer.model mnist", id="too-small"),
        pytest.param((2, 8, 8), (1, 9, 9), "has training images of 8x8x1, but test images of 9x9x1", id="sizes-differ"),
        pytest.param((0, 8, 8), (1, 8, 8), "train-images-idx3-ubyte.gz holds no image", id="no-training-sample"),
        pytest.param((2, 8, 8), (0, 8, 8), "t10k-images-idx3-ubyte.gz holds no image", id="no-test-sample"),
    ],
)
def test_images_that_make_no_training_are_refused(
    train: tuple[int, int, int], test: tuple[int, int, int], message: str, tmp_path: Path
) -> None:
    write_samples(tmp_path, train=train, test=test)

    with pytest.raises(DataError, match=rf"^data\.uri: .*{re.escape(message)}"):
        load(config_of(tmp_path))


def test_smallest_images_are_accepted(tmp_path: Path) -> None:
    write_samples(tmp_path, train=(2, 4, 4), test=(1, 4, 4))

    assert load(config_of(tmp_path)).shape == (4, 4, 1)
