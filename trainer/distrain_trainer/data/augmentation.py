"""Crop, mirror and normalize images, as is usual for ImageNet.

Each random choice depends only on the seed, the epoch and the sample. So a sample is changed in the same way after a
restart, and on any number of ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from distrain_trainer.config import Config

if TYPE_CHECKING:
    from PIL import Image

# The left, upper, right and lower edge of a crop, in pixels.
Box = tuple[float, float, float, float]

USUAL_RATIO = (3 / 4, 4 / 3)
# How often to try to find a random crop that lies within the image. After that many attempts, the centre of the image
# is used.
ATTEMPTS = 10


@dataclass(frozen=True)
class Moments:
    """The mean and standard deviation by which pixels between 0 and 1 are normalized.

    Each array has one number per channel, or a single number for all channels.
    """

    mean: npt.NDArray[np.float32]
    std: npt.NDArray[np.float32]

    @classmethod
    def of(cls, config: Config) -> Moments | None:
        mean, std = (np.array(each, dtype=np.float32) for each in (config.augment_mean, config.augment_std))
        return cls(mean, std) if len(mean) else None

    def normalize(self, pixels: npt.NDArray[np.float32]) -> None:
        """Subtract the mean from the pixels and divide them by the standard deviation, in place.

        `pixels` is contiguous, with the shape (..., width, channels).
        """
        *_, width, channels = pixels.shape
        # Compute with whole rows: NumPy takes six times as long for an inner loop over three channels.
        rows = pixels.reshape(-1, width * channels)
        mean, std = (np.tile(np.broadcast_to(each, channels), width) for each in (self.mean, self.std))
        np.subtract(rows, mean, out=rows)
        np.divide(rows, std, out=rows)


@dataclass(frozen=True)
class Crops:
    """Choose the crop of an image. The crop is then scaled to the size of the model's images.

    For training, the crop's area divided by the image's area is within `scale`, and its width divided by its height is
    within `ratio`. For tests, the shorter side of the image is scaled to `resize` pixels, and the crop is at the
    centre. Without `scale` (for training) or `resize` (for tests), Decoder crops in its own way.
    """

    scale: tuple[float, ...] = ()
    ratio: tuple[float, ...] = USUAL_RATIO
    resize: int | None = None

    @classmethod
    def of(cls, config: Config) -> Crops:
        return cls(config.augment_scale, config.augment_ratio or USUAL_RATIO, config.augment_test_resize)

    def for_training(self, width: int, height: int, random: np.random.Generator) -> Box:
        """Return a random crop: Szegedy et al. 2015 (arXiv:1409.4842, section 6), like torchvision's RandomResizedCrop.

        If none of ten random crops lies within the image, return a crop at the centre. The crop then has the allowed
        ratio that is closest to the image's ratio.
        """
        (least_share, most_share), (narrowest, widest) = self.scale, self.ratio
        for _ in range(ATTEMPTS):
            area = width * height * random.uniform(least_share, most_share)
            ratio = math.exp(random.uniform(math.log(narrowest), math.log(widest)))
            across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < across <= width and 0 < down <= height:
                left, upper = (int(random.integers(room + 1)) for room in (width - across, height - down))
                return left, upper, left + across, upper + down
        return _centre(width, height, min(width, height * widest), min(height, width / narrowest))

    def for_tests(self, width: int, height: int, size: int) -> Box:
        """Return a square at the image's centre.

        If the image's shorter side is scaled to `resize` pixels, the square is `size` pixels wide.
        """
        assert self.resize is not None
        side = min(width, height) * size / self.resize
        return _centre(width, height, side, side)


def _centre(width: int, height: int, across: float, down: float) -> Box:
    left, upper = (width - across) / 2, (height - down) / 2
    return left, upper, left + across, upper + down


def scaled(image: Image.Image, box: Box, width: int, height: int) -> Image.Image:
    """Return a crop of an image as RGB, scaled to a width and height.

    A JPEG is decoded at a reduced size if this size is still large enough for the result.
    """
    from PIL import Image

    full = image.size
    share = max(width / (box[2] - box[0]), height / (box[3] - box[1]))
    image.draft("RGB", (math.ceil(full[0] * share), math.ceil(full[1] * share)))
    across, down = image.width / full[0], image.height / full[1]
    edges = (box[0] * across, box[1] * down, min(box[2] * across, image.width), min(box[3] * down, image.height))
    return as_rgb(image).resize((width, height), Image.Resampling.BILINEAR, box=edges)


def is_grey(image: Image.Image) -> bool:
    """Return whether an image has no colours, as images of digits do.

    Images without colours are often digits, and a mirrored digit is wrong. So by default, such images are not mirrored.
    """
    if image.mode in ("P", "PA"):
        palette = image.getpalette() or []
        return palette[::3] == palette[1::3] == palette[2::3]
    return image.mode in ("1", "L", "LA", "I", "I;16", "F")


def as_rgb(image: Image.Image) -> Image.Image:
    """Return a decoded image as RGB. If the image is already RGB, it is not copied."""
    # Do not call Pillow's convert for RGB images: it would copy them, which takes a fifth of the whole decoding time.
    if image.mode == "RGB":
        image.load()
        return image
    if image.mode.startswith("I"):  # A 16-bit PNG. Pillow's convert would turn all 16-bit values above 255 into white.
        from PIL import Image

        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")
