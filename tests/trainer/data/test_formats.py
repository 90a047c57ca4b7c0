"""Test that each format is detected in folders and in S3, and that all ranks together read each sample exactly once."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain_trainer.data import evaluation_batches, load, train_batches
from distrain_trainer.errors import DataError, StorageError
from distrain_trainer.storage import S3Store, open_store
from lab.datasets.digits import write_idx
from lab.datasets.pictures import encode, numbered, write_image_folder, write_shards
from tests.trainer.fixtures.datasets import config_of, epoch_of, numbers_in

# These sizes are prime numbers, so they cannot be divided evenly among several ranks. The pixels of a sample contain
# the number of the sample.
SAMPLES, TESTS = 23, 7
SIZES = (9, 1, 0, 13)


def write_numbered_idx(folder: Path) -> None:
    for part, count in (("train", SAMPLES), ("t10k", TESTS)):
        numbers = np.arange(count, dtype=np.uint8)
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", numbers.repeat(64).reshape(count, 8, 8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", numbers % np.uint8(3))


def write_numbered_images(folder: Path) -> None:
    write_image_folder(folder / "train", numbered(SAMPLES))
    write_image_folder(folder / "val", numbered(TESTS))


def write_numbered_shards(folder: Path) -> None:
    write_shards(folder / "train", numbered(SAMPLES), SIZES)
    write_shards(folder / "test", numbered(TESTS), (3, 4))


def write_counted_shards(folder: Path) -> None:
    for part, count, sizes in (("train", SAMPLES, SIZES), ("val", TESTS, (7,))):
        written = write_shards(folder / part, numbered(count), sizes)
        (folder / part / "sizes.json").write_text(json.dumps(written))


FORMATS: dict[str, Callable[[Path], None]] = {
    "idx": write_numbered_idx,
    "images": write_numbered_images,
    "shards": write_numbered_shards,
    "counted-shards": write_counted_shards,
}


@pytest.fixture(scope="module", params=FORMATS)
def numbered_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    FORMATS[request.param](folder)
    return folder


@pytest.fixture
def s3(s3_server: Any, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an S3 server that has an empty bucket with the name `data`."""
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    client = s3_server.boto3_client()
    if "data" not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket="data")
    yield client
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="data"):
        for entry in page.get("Contents", []):
            client.delete_object(Bucket="data", Key=entry["Key"])
    # The bucket stays: a prefetching thread of the test would retry for minutes in a bucket that is gone.


def upload(client: Any, folder: Path) -> str:
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), "data", f"set/{path.relative_to(folder)}")
    return "s3://data/set"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_each_sample_comes_once_per_epoch_with_its_label(numbered_folder: Path, ranks: int) -> None:
    config = config_of(numbered_folder)
    dataset = load(config)

    for epoch in (0, 1):
        per_rank = epoch_of(config, dataset, ranks=ranks, epoch=epoch)

        assert sorted(itertools.chain(*map(numbers_in, per_rank))) == list(range(SAMPLES))
        for batch in itertools.chain(*per_rank):
            real = batch.weights > 0
            assert real.sum() == batch.samples
            np.testing.assert_array_equal(batch.labels[real], np.array(numbers_in([batch])) % 3)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_mean_over_ranks_of_weighted_sums_is_the_mean_over_the_global_batch(numbered_folder: Path, ranks: int) -> None:
    config = config_of(numbered_folder)

    for batches in zip(*epoch_of(config, load(config), ranks=ranks), strict=True):
        values = [batch.images[:, 0, 0, 0] for batch in batches]
        mean_over_ranks = np.mean([np.sum(batch.weights * own) for batch, own in zip(batches, values, strict=True)])
        real = np.concatenate([own[batch.weights > 0] for batch, own in zip(batches, values, strict=True)])

        assert {batch.global_samples for batch in batches} == {len(real)}
        assert mean_over_ranks == pytest.approx(real.mean())


def test_order_is_the_seeds_and_the_epochs(numbered_folder: Path) -> None:
    config, other = config_of(numbered_folder), config_of(numbered_folder, seed=1)

    [first], [again] = (epoch_of(config, load(config), ranks=1) for _ in range(2))
    [second] = epoch_of(config, load(config), ranks=1, epoch=1)
    [of_other_seed] = epoch_of(other, load(other), ranks=1)

    assert numbers_in(first) == numbers_in(again)
    assert numbers_in(first) != numbers_in(second)
    assert numbers_in(first) != numbers_in(of_other_seed)
    assert numbers_in(first) != sorted(numbers_in(first))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_each_test_sample_is_tested_once(numbered_folder: Path, ranks: int) -> None:
    config = config_of(numbered_folder)
    dataset = load(config)

    tested = [numbers_in(list(evaluation_batches(config, dataset, rank=rank, ranks=ranks))) for rank in range(ranks)]

    assert dataset.tests == TESTS
    assert sorted(itertools.chain(*tested)) == list(range(TESTS))


def test_s3_gives_what_the_folder_gives(numbered_folder: Path, s3: Any) -> None:
    in_folder, in_s3 = config_of(numbered_folder), config_of(upload(s3, numbered_folder))

    expected = epoch_of(in_folder, load(in_folder), ranks=2)
    found = epoch_of(in_s3, load(in_s3), ranks=2)

    assert [numbers_in(batches) for batches in found] == [numbers_in(batches) for batches in expected]


def test_place_without_folders_of_its_own_is_trained_on_whole(tmp_path: Path) -> None:
    # A class with the name train must not be mistaken for the folder of the training data.
    for name in ("plane", "train"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.PNG").write_bytes(encode(np.zeros((8, 8, 3), dtype=np.uint8), "PNG"))

    dataset = load(config_of(tmp_path))

    assert (len(dataset.train), dataset.tests, dataset.classes) == (2, 0, 2)
    assert list(evaluation_batches(config_of(tmp_path), dataset, rank=0, ranks=1)) == []


def test_folder_that_is_hidden_is_passed_over(tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES))
    (tmp_path / "class-0" / "._00000.png").write_bytes(b"what macOS leaves")

    assert len(load(config_of(tmp_path)).train) == SAMPLES


def test_classes_may_be_more_than_the_data_shows_and_not_fewer(tmp_path: Path) -> None:
    write_numbered_images(tmp_path)

    assert load(config_of(tmp_path, classes=4)).classes == 4
    with pytest.raises(DataError, match=r"^trainer\.extraArgs: --classes=2 is fewer than the 3 classes of /"):
        load(config_of(tmp_path, classes=2))


def test_class_that_only_the_test_data_have_is_named(tmp_path: Path) -> None:
    write_numbered_images(tmp_path)
    (tmp_path / "val" / "class-1").rename(tmp_path / "val" / "class-7")

    with pytest.raises(DataError, match=r"^data\.uri: /.*/val/ has the class class-7, but /.*/train/ does not; give"):
        load(config_of(tmp_path))


@pytest.mark.parametrize(
    ("files", "held"),
    [
        pytest.param([], "nothing", id="empty"),
        pytest.param(["b.jpg", "a.jpg"], r"a\.jpg, b\.jpg", id="images-without-classes"),
        pytest.param([f"{n}.csv" for n in range(9)], r"0\.csv, 1\.csv, 2\.csv, 3\.csv, 4\.csv, \.\.\.", id="unknown"),
        pytest.param([".hidden/a/b.jpg"], "nothing", id="hidden"),
    ],
)
@pytest.mark.parametrize("place", ["folder", "s3"])
def test_place_of_no_known_format_is_said_with_what_it_holds(
    tmp_path: Path, files: list[str], held: str, place: str, s3: Any
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    uri = str(tmp_path) if place == "folder" else upload(s3, tmp_path)

    with pytest.raises(
        DataError,
        match=rf"^data\.uri: {uri} holds {held}; correct data\.uri, or put there MNIST-format idx \.gz files, .*$",
    ):
        load(config_of(uri))


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        StorageError, match=r"^data\.uri: /.*/absent cannot be listed: No such file .*; mount the volume"
    ):
        load(config_of(tmp_path / "absent"))


def test_s3_that_fails_while_it_is_read_is_told_in_a_line(s3: Any, tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES))
    config = config_of(upload(s3, tmp_path))
    dataset = load(config)
    s3.delete_object(Bucket="data", Key="set/class-1/00001.png")

    with pytest.raises(StorageError, match=r"^data\.uri: s3://data/set has no class-1/00001\.png \(it holds"):
        list(itertools.islice(train_batches(config, dataset, rank=0, ranks=1), 8))


def test_threads_end_with_the_batches(tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES))
    config = config_of(tmp_path)
    before = set(threading.enumerate())
    batches = train_batches(config, load(config), rank=0, ranks=1)
    next(batches)
    started = set(threading.enumerate()) - before

    del batches

    assert started
    for thread in started:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in started)


def test_more_than_a_page_of_s3_is_listed(s3: Any, s3_env: dict[str, str], tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES))
    store = open_store(upload(s3, tmp_path), value="data.uri")
    assert isinstance(store, S3Store)
    pages: list[dict[str, Any]] = []

    def limit(params: dict[str, Any], **_: Any) -> None:
        params["MaxKeys"] = 5
        pages.append(params)

    store.client.meta.events.register("provide-client-params.s3.ListObjectsV2", limit)

    assert len(list(store.names())) == SAMPLES
    assert len(pages) == 5
