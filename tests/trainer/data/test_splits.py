"""Test that train/ and val/ must go together, and that data the trainer would leave out is an error before training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain_trainer.data import load
from distrain_trainer.errors import DataError
from lab.datasets.digits import write_idx
from lab.datasets.pictures import encode, numbered, write_image_folder, write_shards
from tests.trainer.fixtures.datasets import config_of

TRAINED, TESTED = 12, 6


def images(folder: Path, *, size: int = 8) -> None:
    write_image_folder(folder, numbered(TRAINED, size=size))


def shards(folder: Path, *, size: int = 8, classes: int = 3) -> None:
    write_shards(folder, numbered(TRAINED, size=size, classes=classes), [TRAINED])


def flat(folder: Path) -> None:
    """Write images without class folders, as in ImageNet's archive of test images."""
    folder.mkdir(parents=True)
    for number, (image, _) in enumerate(numbered(TESTED)):
        (folder / f"ILSVRC2012_val_{number:08}.JPEG").write_bytes(image)


def empty_shard(folder: Path) -> None:
    write_shards(folder, iter(()), [0])


def sizes_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "sizes.json").write_text("{}")


def idx(folder: Path, *, train: list[int], test: list[int]) -> None:
    for part, labels in (("train", train), ("t10k", test)):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", np.zeros((len(labels), 8, 8), dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.array(labels, dtype=np.uint8))


Write = Callable[[Path], None]


@pytest.mark.parametrize("part", ["val", "test"])
@pytest.mark.parametrize(
    ("train", "test", "held", "form"),
    [
        pytest.param(images, flat, "ILSVRC2012_val_00000000.JPEG, .*", "one folder .* per class", id="without-classes"),
        pytest.param(images, shards, r"shard-000000\.tar", "one folder .* per class", id="shards"),
        pytest.param(shards, images, r"class-0/00000\.png, .*", r"\.tar shards", id="images"),
        pytest.param(shards, sizes_alone, r"sizes\.json", r"\.tar shards", id="unknown"),
    ],
)
def test_test_data_of_another_form_are_refused(
    tmp_path: Path, train: Write, test: Write, held: str, form: str, part: str
) -> None:
    train(tmp_path / "train")
    test(tmp_path / part)

    with pytest.raises(
        DataError,
        match=rf"^data\.uri: /.*/{part}/ holds {held}, but /.*/train/ holds {form}; give both folders the same form",
    ):
        load(config_of(tmp_path))


def test_training_images_without_classes_are_not_a_class_named_train(tmp_path: Path) -> None:
    flat(tmp_path / "train")
    flat(tmp_path / "val")

    with pytest.raises(DataError, match=r"^data\.uri: /.*/train/ holds ILSVRC2012_val_0.*; correct data\.uri, or put"):
        load(config_of(tmp_path))


def test_files_beside_train_are_ignored(tmp_path: Path) -> None:
    """An archive often stays beside the folders that were unpacked from it."""
    images(tmp_path / "train")
    (tmp_path / "images.tar").write_bytes(b"an archive")

    assert len(load(config_of(tmp_path)).train) == TRAINED


@pytest.mark.parametrize("write", [images, shards])
@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"evaluate_every": 1}, "evaluateEvery: 1"),
        ({"augment_test_resize": 9, "image_size": 8}, "augment.testResize: 9"),
    ],
    ids=["evaluateEvery", "testResize"],
)
def test_value_for_tests_is_refused_if_there_are_none(
    tmp_path: Path, write: Write, values: dict[str, Any], path: str
) -> None:
    write(tmp_path / "train")
    with pytest.raises(DataError, match=rf"^trainer\.{path} needs test samples, but /.* has none in val/ or test/; "):
        load(config_of(tmp_path, **values))

    write(tmp_path / "val")
    assert load(config_of(tmp_path, **values)).tests == TRAINED


@pytest.mark.parametrize(("train", "test", "part"), [(shards, empty_shard, "val"), (empty_shard, shards, "train")])
def test_shards_without_samples_are_refused(tmp_path: Path, train: Write, test: Write, part: str) -> None:
    train(tmp_path / "train")
    test(tmp_path / "val")

    with pytest.raises(DataError, match=rf"^data\.uri: the shards of /.*/{part}/ hold no sample; give shards with"):
        load(config_of(tmp_path))


def test_class_that_only_test_shards_have_is_refused_unless_the_values_say_so(tmp_path: Path) -> None:
    shards(tmp_path / "train")
    shards(tmp_path / "val", classes=8)

    with pytest.raises(
        DataError,
        match=r"^data\.uri: /.*/val/ has a sample of class 7, but the largest class of /.*/train/ is 2; give both "
        r"the same classes, or add --classes=8 to trainer\.extraArgs$",
    ):
        load(config_of(tmp_path))

    assert load(config_of(tmp_path, classes=8)).classes == 8


def test_class_that_only_idx_files_for_the_test_have_is_refused_unless_the_values_say_so(tmp_path: Path) -> None:
    idx(tmp_path, train=[0, 2, 2], test=[0, 3])

    with pytest.raises(
        DataError,
        match=r"^data\.uri: /.*/t10k-labels-idx1-ubyte\.gz has a sample of class 3, but the largest class of "
        r"/.*/train-labels-idx1-ubyte\.gz is 2; give",
    ):
        load(config_of(tmp_path))

    assert load(config_of(tmp_path, classes=4)).classes == 4


@pytest.mark.parametrize("folder", ["", "train", "val"])
def test_class_without_a_readable_image_is_refused(tmp_path: Path, folder: str) -> None:
    """Otherwise the other classes would get other numbers."""
    for part in ("train", "val") if folder else ("",):
        images(tmp_path / part)
    (tmp_path / folder / "a" / "b").mkdir(parents=True)
    (tmp_path / folder / "a" / "b" / "1.webp").write_bytes(b"an image")

    with pytest.raises(
        DataError,
        match=rf"^data\.uri: /.*{folder}/a/ holds b/1\.webp, and no \.jpg, \.jpeg or \.png; convert .* or move",
    ):
        load(config_of(tmp_path))


def test_folder_to_which_the_run_writes_is_no_class(tmp_path: Path) -> None:
    images(tmp_path)
    for part in ("results", "checkpoints"):
        (tmp_path / part / "default" / "run1").mkdir(parents=True)
        (tmp_path / part / "default" / "run1" / "record.jsonl").touch()
    places = {"output": f"{tmp_path}/results/default/run1", "checkpoint": f"{tmp_path}/checkpoints/default/run1"}

    assert load(config_of(tmp_path, **places)).classes == 3


@pytest.mark.parametrize("write", [images, shards])
def test_first_test_image_of_another_size_is_refused_before_training(
    tmp_path: Path, write: Callable[..., None]
) -> None:
    write(tmp_path / "train")
    write(tmp_path / "val", size=10)

    with pytest.raises(
        DataError, match=r"^data\.uri: /.*train/.* is 8x8x3, but /.*val/.*00000\.png is 10x10x3; add --image-size=8 to"
    ):
        load(config_of(tmp_path))

    assert load(config_of(tmp_path, image_size=8)).tests == TRAINED


@pytest.mark.parametrize("write", [images, shards])
def test_first_test_image_that_is_damaged_counts_as_any_other(tmp_path: Path, write: Write) -> None:
    write(tmp_path / "train")
    samples = [(b"", 0), (encode(np.zeros((8, 8, 3), dtype=np.uint8), "PNG"), 1)]
    if write is images:
        write_image_folder(tmp_path / "val", iter(samples))
    else:
        write_shards(tmp_path / "val", iter(samples), [2])

    assert load(config_of(tmp_path)).tests == 2


@pytest.mark.parametrize("folder", ["", "train/"])
def test_shards_beside_the_folders_of_classes_are_refused(tmp_path: Path, folder: str) -> None:
    images(tmp_path / folder)
    shards(tmp_path / folder)

    with pytest.raises(DataError, match=r"holds the shard shard-000000\.tar and the image class-0/.*\.png; move one"):
        load(config_of(tmp_path))


@pytest.mark.parametrize("train", ["imagenet/train", "training", "imagenet"])
def test_folder_above_the_one_that_is_meant_is_refused(tmp_path: Path, train: str) -> None:
    images(tmp_path / train)
    if train == "training":
        images(tmp_path / "validation")

    words = rf"holds images only in deeper folders, such as {train}/class-0/.*\.png; name the folder that holds train/"
    with pytest.raises(DataError, match=words):
        load(config_of(tmp_path))


def test_classes_may_have_folders_of_their_own(tmp_path: Path) -> None:
    for name in ("cats", "dogs"):
        images(tmp_path / name)

    assert load(config_of(tmp_path)).classes == 2
