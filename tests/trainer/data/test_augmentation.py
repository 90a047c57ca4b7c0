"""Test that images are cropped, mirrored and normalized within the allowed ranges, and reproducibly."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from distrain_trainer.config import Config
from distrain_trainer.data import Position, evaluation_batches, load, train_batches
from distrain_trainer.data.augmentation import Crops
from distrain_trainer.errors import DataError
from lab.datasets.digits import write_idx
from lab.datasets.pictures import encode, write_image_folder
from tests.trainer.fixtures.datasets import config_of

# The mean and standard deviation of the channels in ImageNet, as in torchvision and in implementations of He et al.
# 2015.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 16


def ramps(count: int) -> Iterator[tuple[bytes, int]]:
    """Yield images of 64x48.

    In these images, red increases to the right, green increases downwards, and blue is the number of the image.
    """
    across, down = np.meshgrid(np.arange(64) * 2, np.arange(48) * 2)
    for number in range(count):
        yield encode(np.stack([across, down, np.full_like(down, number)], axis=-1).astype(np.uint8), "PNG"), 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("train", "val"):
        write_image_folder(tmp_path / part, ramps(12))
    return tmp_path


def images_of(config: Config, *, ranks: int = 1, epoch: int = 0) -> dict[int, npt.NDArray[np.float32]]:
    """Return the images of one training epoch, keyed by image number. Their pixels are from 0 to 255."""
    dataset = load(config)
    samples = len(dataset.train)
    found = {}
    for rank in range(ranks):
        start = Position(0, epoch * samples)
        batches = train_batches(config, dataset, rank=rank, ranks=ranks, start=start)
        for batch in itertools.islice(batches, -(-samples // ranks // config.batch_size)):
            for image in batch.images[batch.weights > 0] * 255:
                found[round(float(image[0, 0, 2]))] = image
    return found


@pytest.mark.parametrize(("width", "height"), [(500, 375), (375, 500), (64, 64)])
def test_crops_have_the_shares_and_ratios_of_the_range_and_lie_within_the_image(width: int, height: int) -> None:
    crops, random = Crops(scale=(0.08, 1.0)), np.random.default_rng(0)

    boxes = np.array([crops.for_training(width, height, random) for _ in range(2000)])

    across, down = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert boxes.min() >= 0
    assert boxes[:, 2].max() <= width
    assert boxes[:, 3].max() <= height
    share, ratio = across * down / (width * height), across / down
    # The edges of a crop are rounded to whole pixels, so its area and its ratio may slightly exceed the limits.
    assert (share > 0.07).all()
    assert (np.abs(np.log(ratio)) < np.log(4 / 3) + 0.15).all()
    # The crops' shares of the image's area are drawn uniformly, but crops that do not fit into the image are discarded.
    # Ratios are log-uniform.
    assert 0.4 < share.mean() < 0.54
    assert abs(np.log(ratio).mean()) < 0.1
    assert 0.2 < (ratio > 1.15).mean() < 0.45
    lefts = boxes[:, 0] / np.maximum(1, width - across)
    assert abs(lefts.mean() - 0.5) < 0.03


def test_image_that_no_crop_fits_is_cut_at_its_centre() -> None:
    crops, random = Crops(scale=(1.0, 1.0)), np.random.default_rng(0)

    assert crops.for_training(1000, 100, random) == pytest.approx((1000 / 2 - 200 / 3, 0, 1000 / 2 + 200 / 3, 100))


def test_crop_shows_its_part_of_the_image(folder: Path) -> None:
    """Compute the size of a crop from the red values of one row and the green values of one column."""
    config = config_of(folder, image_size=SIZE, augment_scale=(0.1, 0.3), augment_flip="false")

    images = images_of(config)

    assert images.keys() == set(range(12))
    for image in images.values():
        red, green = image[0, :, 0], image[:, 0, 1]
        assert (np.diff(red) > 0).all()
        assert (np.diff(green) > 0).all()
        # In the source image, neighbouring pixels differ by 2. The centres of the first and the last pixel are half a
        # pixel inside the crop.
        across, down = ((line[-1] - line[0]) / 2 * SIZE / (SIZE - 1) for line in (red, green))
        assert 0.08 < across * down / (64 * 48) < 0.32
    assert len({round(float(image[0, 0, 0])) for image in images.values()}) > 6


def test_crops_depend_on_seed_epoch_and_sample_alone(folder: Path) -> None:
    values: dict[str, Any] = {"image_size": SIZE, "augment_scale": (0.1, 1)}
    one = images_of(config_of(folder, **values))

    three = images_of(config_of(folder, **values, epochs=2), ranks=3)
    others = [images_of(config_of(folder, **values, seed=1)), images_of(config_of(folder, **values), epoch=1)]

    assert three.keys() == one.keys()
    assert all(np.array_equal(three[number], image) for number, image in one.items())
    for other in others:
        assert not any(np.array_equal(other[number], image) for number, image in one.items())


@pytest.mark.parametrize(("flip", "least", "most"), [(None, 8, 40), ("true", 8, 40), ("false", 0, 0)])
def test_half_of_the_images_are_mirrored_unless_the_values_say_no(
    folder: Path, flip: str | None, least: int, most: int
) -> None:
    config = config_of(folder, image_size=SIZE, augment_flip=flip)

    images = [image for epoch in range(4) for image in images_of(config, epoch=epoch).values()]

    assert len(images) == 48
    assert least <= sum(bool(image[0, 0, 0] > image[0, -1, 0]) for image in images) <= most


def test_grey_images_such_as_digits_are_not_mirrored_by_default(tmp_path: Path) -> None:
    pixels = np.tile(np.arange(48, dtype=np.uint8), (48, 1))
    write_image_folder(tmp_path, ((encode(pixels, "PNG"), 0) for _ in range(24)))

    def mirrored(flip: str | None) -> int:
        config = config_of(tmp_path, image_size=SIZE, augment_flip=flip, batch_size=24)
        batch = next(train_batches(config, load(config), rank=0, ranks=1))
        return int((batch.images[:, 0, 0, 0] > batch.images[:, 0, -1, 0]).sum())

    assert mirrored(None) == 0
    assert mirrored("true") > 3


def test_each_image_decides_whether_it_is_mirrored_by_default(tmp_path: Path) -> None:
    """Of the labels, 0 is for grey images, some of them with a palette, and 1 for images with colours."""
    pixels = np.tile(np.arange(48, dtype=np.uint8), (48, 1))
    with_palette = io.BytesIO()
    Image.fromarray(pixels).convert("P").save(with_palette, "PNG")
    grey = [encode(pixels, "PNG"), with_palette.getvalue()]
    colours = encode(np.dstack([pixels, pixels, 0 * pixels]), "PNG")
    write_image_folder(tmp_path, itertools.chain(*([(grey[n % 2], 0), (colours, 1)] for n in range(24))))

    config = config_of(tmp_path, image_size=SIZE, batch_size=48)
    batch = next(train_batches(config, load(config), rank=0, ranks=1))

    is_mirrored = batch.images[:, 0, 0, 0] > batch.images[:, 0, -1, 0]
    assert not is_mirrored[batch.labels == 0].any()
    assert is_mirrored[batch.labels == 1].sum() > 3


def test_images_that_are_not_scaled_are_mirrored_on_request_alone(tmp_path: Path) -> None:
    write_image_folder(tmp_path, ramps(24))

    def mirrored(flip: str | None) -> int:
        images = images_of(config_of(tmp_path, augment_flip=flip))
        return sum(bool(image[0, 0, 0] > image[0, -1, 0]) for image in images.values())

    assert (mirrored(None), mirrored("false")) == (0, 0)
    assert mirrored("true") > 3


@pytest.mark.parametrize("part", ["train", "val"])
def test_pixels_are_normalized_by_mean_and_standard_deviation(folder: Path, part: str) -> None:
    def images(**values: Any) -> Any:
        config = config_of(folder, image_size=SIZE, batch_size=12, **values)
        dataset = load(config)
        if part == "val":
            return next(evaluation_batches(config, dataset, rank=0, ranks=1)).images
        return next(train_batches(config, dataset, rank=0, ranks=1)).images

    expected = (images() - np.array(MEAN)) / np.array(STD)
    np.testing.assert_allclose(images(augment_mean=MEAN, augment_std=STD), expected, rtol=1e-5, atol=1e-6)


def write_digits(folder: Path) -> None:
    for part in ("train", "t10k"):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", np.full((6, 8, 8), 51, dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(6, dtype=np.uint8))


def test_idx_images_are_normalized_too(tmp_path: Path) -> None:
    write_digits(tmp_path)
    config = config_of(tmp_path, augment_mean=(0.1,), augment_std=(0.25,))
    dataset = load(config)

    for batches in (
        train_batches(config, dataset, rank=0, ranks=1),
        evaluation_batches(config, dataset, rank=0, ranks=1),
    ):
        np.testing.assert_allclose(next(batches).images, 0.4, rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(
            {"augment_mean": (0.1, 0.2, 0.3), "augment_std": (1.0, 1.0, 1.0)},
            r"^trainer\.augment\.mean: has 3 numbers, but the images of /.* have 1 channels; give 1 numbers, or one ",
            id="channels",
        ),
        pytest.param(
            {"augment_flip": "true"},
            r"^trainer\.augment\.flip: true mirrors only JPEG and PNG images, but /.* idx",
            id="flip",
        ),
    ],
)
def test_augmentation_that_does_not_fit_the_data_is_refused(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    write_digits(tmp_path)

    with pytest.raises(DataError, match=message):
        load(config_of(tmp_path, **values))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_tests_show_the_centre_of_the_scaled_image(tmp_path: Path, kind: str) -> None:
    """The expected image is made with Pillow, in the same way as torchvision does it.

    Scale the shorter side to 64 pixels, then crop 56x56 pixels at the centre.
    """
    down, across = np.mgrid[0:512, 0:640]
    pixels = np.stack([across * 255 // 640, down * 255 // 512, (across + down) % 256], axis=-1).astype(np.uint8)
    for part in ("train/a", "val/a"):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / f"1.{kind.lower()}").write_bytes(encode(pixels, kind))
    config = config_of(tmp_path, image_size=56, augment_test_resize=64, batch_size=1)

    [batch] = evaluation_batches(config, load(config), rank=0, ranks=1)

    whole = Image.fromarray(pixels).resize((80, 64), Image.Resampling.BILINEAR)
    expected = np.asarray(whole.crop((12, 4, 68, 60))) / 255
    assert np.abs(batch.images[0] - expected)[..., :2].mean() < 0.01
