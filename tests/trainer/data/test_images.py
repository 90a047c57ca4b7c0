"""Test that images are decoded, and scaled and cropped on request, and that an error names the bad image."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from distrain_trainer.data import evaluation_batches, load, train_batches
from distrain_trainer.errors import DataError
from lab.datasets.pictures import encode, numbered, photographs, write_image_folder
from tests.trainer.fixtures.datasets import config_of, go_through

SAMPLES = 23


def test_images_are_whole_numbers_of_255ths(tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES))
    config = config_of(tmp_path)

    batch = next(train_batches(config, load(config), rank=0, ranks=1))

    assert batch.images.shape == (3, 8, 8, 3)
    assert batch.images.dtype == np.float32
    np.testing.assert_array_equal(batch.images * 255, np.rint(batch.images * 255))


def test_grey_image_becomes_three_channels(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(encode(np.full((8, 8), 7, dtype=np.uint8), "JPEG"))
    config = config_of(tmp_path, batch_size=1)

    batch = next(train_batches(config, load(config), rank=0, ranks=1))

    assert batch.images[0, 0, 0] * 255 == pytest.approx([7, 7, 7])


def write_wide_image(folder: Path) -> None:
    """Write one image of 40x20 pixels: its left half is black, and its right half is white."""
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:, 20:] = 255
    for part in ("train/a", "val/a"):
        (folder / part).mkdir(parents=True)
        (folder / part / "1.png").write_bytes(encode(pixels, "PNG"))


def test_image_size_scales_the_shorter_side_and_crops_the_centre_for_tests(tmp_path: Path) -> None:
    write_wide_image(tmp_path)
    config = config_of(tmp_path, image_size=10, batch_size=1)

    [batch] = evaluation_batches(config, load(config), rank=0, ranks=1)

    assert batch.images.shape == (1, 10, 10, 3)
    assert batch.images[0, :, :4].max() == 0
    assert batch.images[0, :, 6:].min() == 1


def test_no_image_is_mirrored_for_tests(tmp_path: Path) -> None:
    write_wide_image(tmp_path)
    for number in range(2, 9):
        (tmp_path / "val/a" / f"{number}.png").write_bytes((tmp_path / "val/a/1.png").read_bytes())
    config = config_of(tmp_path, image_size=10, batch_size=8)

    [batch] = evaluation_batches(config, load(config), rank=0, ranks=1)

    assert batch.samples == 8
    assert np.all(batch.images == batch.images[0])
    assert (batch.images[0, 0, 0, 0], batch.images[0, 0, 9, 0]) == (0, 1)


def test_image_size_crops_and_mirrors_by_the_seed_for_training(tmp_path: Path) -> None:
    write_wide_image(tmp_path)

    def epochs_of(seed: int) -> list[tuple[float, float]]:
        config = config_of(tmp_path, image_size=10, batch_size=1, seed=seed)
        batches = itertools.islice(train_batches(config, load(config), rank=0, ranks=1), 20)
        return [(float(batch.images[0, 0, 0, 0]), float(batch.images.mean())) for batch in batches]

    epochs = epochs_of(0)

    # In mirrored images the first pixel is white; in other images it is black.
    assert {first for first, _ in epochs} >= {0.0, 1.0}
    assert len({mean for _, mean in epochs}) > 10
    assert epochs_of(0) == epochs
    assert epochs_of(1) != epochs


@pytest.mark.parametrize("size", [24, 32, 60, 128], ids=["smaller", "an-eighth", "a-quarter", "half"])
def test_large_jpeg_is_scaled_without_loss(tmp_path: Path, size: int) -> None:
    # A checkerboard of 256x256 pixels, whose squares are 32 pixels wide. If the JPEG were decoded at too small a size,
    # all pixels would be grey.
    squares = (np.indices((256, 256, 3))[:2].sum(axis=0) // 32 % 2 * 255).astype(np.uint8)
    for part in ("train/a", "val/a"):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "1.jpg").write_bytes(encode(squares, "JPEG"))
    config = config_of(tmp_path, image_size=size, batch_size=1)

    [batch] = evaluation_batches(config, load(config), rank=0, ranks=1)

    expected = np.asarray(Image.fromarray(squares).resize((size, size), Image.Resampling.BILINEAR)) / 255
    assert batch.images.shape == (1, size, size, 3)
    assert np.abs(batch.images[0] - expected).mean() < 0.05


def replace_image(folder: Path, content: bytes) -> None:
    (folder / "class-1" / "00001.png").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "no JPEG or PNG image", id="empty"),
        pytest.param(b"<html>not found</html>", "no JPEG or PNG image", id="a-web-page"),
        pytest.param(
            next(photographs(1, size=64, classes=1))[0][:-200], "image file is truncated.*", id="cut-off-jpeg"
        ),
        pytest.param(next(numbered(1))[0][:-30], ".+", id="cut-off-png"),
    ],
)
def test_damaged_image_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES, size=64))
    go_through(config_of(tmp_path))
    replace_image(tmp_path, content)

    with pytest.raises(
        DataError,
        match=rf"^data\.uri: /.*/class-1/00001\.png is damaged \({reason}\); upload it again, or raise data\.",
    ):
        go_through(config_of(tmp_path))


def test_damaged_image_is_left_out_and_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES, size=64))
    replace_image(tmp_path, b"")
    config = config_of(tmp_path, max_bad_share=0.05)

    batches = go_through(config)

    [batch] = [batch for batch in batches if (batch.weights[: batch.samples] == 0).any()]
    [slot] = np.flatnonzero(batch.weights == 0)
    # In the batch, another image takes the place of the damaged image.
    assert any(np.array_equal(batch.images[slot], batch.images[other]) for other in range(3) if other != slot)
    [line] = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"left out: data\.uri: /.*/00001\.png is damaged \(.*\); upload it again \(1 of .* 1\)", line)


def test_more_damaged_images_than_the_values_allow_end_the_run(tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES, size=64))
    for image in sorted((tmp_path / "class-1").iterdir())[:2]:
        image.write_bytes(b"")

    with pytest.raises(DataError, match=r"or raise data\.maxBadShare, which lets 1 of 23 samples be damaged$"):
        go_through(config_of(tmp_path, max_bad_share=0.05))


def test_images_of_two_sizes_are_refused_with_both_and_the_remedy(tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(SAMPLES))
    replace_image(tmp_path, encode(np.zeros((10, 8, 3), dtype=np.uint8), "PNG"))

    with pytest.raises(
        DataError,
        match=r"^data\.uri: /.*/class-0/00000\.png is 8x8x3, but /.*/class-1/00001\.png is 10x8x3; "
        r"add --image-size=8 to trainer\.extraArgs",
    ):
        go_through(config_of(tmp_path))

    go_through(config_of(tmp_path, image_size=8))


def test_images_of_another_size_than_the_models_are_refused_with_the_remedy(tmp_path: Path) -> None:
    write_image_folder(tmp_path, numbered(3))

    with pytest.raises(
        DataError,
        match=r"^trainer\.model: vgg16 takes images of 224x224x3, and /.*/00000\.png is 8x8x3; add --image-size=224",
    ):
        load(config_of(tmp_path, model="vgg16"))

    assert load(config_of(tmp_path, model="vgg16", image_size=224)).shape == (224, 224, 3)


@pytest.mark.parametrize("data", ["images", "synthetic"])
def test_image_size_that_the_model_cannot_take_is_refused(tmp_path: Path, data: str) -> None:
    write_image_folder(tmp_path, numbered(3))
    uri = tmp_path if data == "images" else "synthetic"

    with pytest.raises(
        DataError,
        match=r"--image-size=64 makes images of 64x64x3, but trainer\.model resnet50 takes 224x224x3; make it",
    ):
        load(config_of(uri, model="resnet50", image_size=64, epochs=None, steps=1))


def test_image_size_for_idx_files_is_refused(digits: Path) -> None:
    with pytest.raises(DataError, match=r"^trainer\.extraArgs: --image-size=8 scales only JPEG and PNG images, but /"):
        load(config_of(digits, image_size=8))
