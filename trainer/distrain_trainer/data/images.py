"""Read and decode JPEG and PNG images from folders, one per class. Each image is read only when it is needed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from distrain_trainer.data.augmentation import Crops, Moments, as_rgb, is_grey, scaled
from distrain_trainer.data.sampler import Indices, Part
from distrain_trainer.data.samples import Pixels, Shape, Work, put, size_text
from distrain_trainer.errors import DamagedSampleError, DataError
from distrain_trainer.storage import Store

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png")
REMEDY = "add --image-size={} to trainer.extraArgs, which scales and crops every image"


@dataclass(frozen=True)
class Decoder:
    """Decode image files to arrays that all have the same shape.

    Without `scales`, every image must have the shape of the image `first`. With `scales`, each image is scaled and
    cropped to the shape. The crop is at the centre, or with `augments` at a random place. If `crops` is set, `crops`
    chooses the crop instead. With `augments` and `flips`, half of the images are mirrored; if `flips` is None, half of
    the images that have colours. `decode` does not use `moments`; `fill` normalizes the pixels with it.
    """

    shape: Shape
    scales: bool
    first: str
    augments: bool
    seed: int
    flips: bool | None = None
    crops: Crops = field(default_factory=Crops)
    moments: Moments | None = None

    def fill(self, content: bytes, name: str, place: Pixels, *, epoch: int, sample: int) -> None:
        """Decode an image into `place`, float32[height, width, 3]. Raises what `decode` raises."""
        put(self.decode(content, name, epoch=epoch, sample=sample), place, self.moments)

    def decode(self, content: bytes, name: str, *, epoch: int, sample: int) -> npt.NDArray[np.uint8]:
        """Decode an image.

        Raises DamagedSampleError if the image cannot be decoded, and DataError if it has another size. `epoch` and
        `sample` seed the random crop.
        """
        from PIL import ImageOps

        random = np.random.default_rng((self.seed, epoch, sample))
        try:
            image = _open(content)
            flips = self.augments and (not is_grey(image) if self.flips is None else self.flips)
            decoded = self._scaled(image, random)
        # Pillow's decoders raise many types of exceptions.
        except Exception as error:
            raise _damaged(name, error) from None
        self.require_size((decoded.height, decoded.width, 3), name)
        return np.asarray(ImageOps.mirror(decoded) if flips and random.random() < 0.5 else decoded)

    def require_size(self, shape: Shape, name: str) -> None:
        """Raise DataError if an image's shape is not that of the image `first`."""
        if shape != self.shape:
            raise DataError(
                f"data.uri: {self.first} is {size_text(self.shape)}, but {name} is {size_text(shape)}; "
                f"{REMEDY.format(min(self.shape[:2]))}"
            )

    def _scaled(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        """Return the image as RGB. With `scales`, crop the image and scale the crop to `shape`."""
        height, width, _ = self.shape
        if not self.scales:
            return as_rgb(image)
        if self.augments and self.crops.scale:
            return scaled(image, self.crops.for_training(*image.size, random), width, height)
        if not self.augments and self.crops.resize:
            return scaled(image, self.crops.for_tests(*image.size, height), width, height)
        return self._fit(image, random)

    def _fit(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        """Scale the image to the smallest size that covers `shape`, and crop what exceeds `shape`.

        The crop is at the centre for tests, and at a random place for training.
        """
        from PIL import Image, ImageOps

        height, width, _ = self.shape
        _decode_small(image, height)
        across, down = random.random(2) if self.augments else (0.5, 0.5)
        return ImageOps.fit(as_rgb(image), (width, height), Image.Resampling.BILINEAR, centering=(across, down))


@dataclass(frozen=True)
class ImageFolder:
    """A data set of image files: the names of the files in the store, and the label of each."""

    store: Store
    names: Sequence[str]
    labels: Indices
    decoder: Decoder
    shards: tuple[int, ...] = ()
    shuffle_buffer: int = 0

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> Shape:
        return self.decoder.shape

    def works(self, part: Part) -> Iterator[list[Work]]:
        for chosen, _ in part.steps:
            yield [partial(self._fill, slot, int(sample), part.epoch) for slot, sample in enumerate(chosen)]

    def _fill(self, slot: int, sample: int, epoch: int, images: Pixels, labels: Indices) -> None:
        name = self.names[sample]
        content = self.store.read(name)
        self.decoder.fill(content, self.store.path(name), images[slot], epoch=epoch, sample=sample)
        labels[slot] = self.labels[sample]


def is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def shape_of(content: bytes, name: str) -> Shape:
    """Return an image's shape (height, width, 3) from its header.

    Raises DamagedSampleError if the file is not an image.
    """
    try:
        image = _open(content)
    except Exception as error:
        raise _damaged(name, error) from None
    return image.height, image.width, 3


def _open(content: bytes) -> Image.Image:
    # Import Pillow only here: a container image without Pillow can still train on other data.
    from PIL import Image

    return Image.open(io.BytesIO(content), formats=("JPEG", "PNG"))


def _decode_small(image: Image.Image, side: int) -> None:
    """Make Pillow decode a JPEG at 1/2, 1/4 or 1/8 of its size, which is faster.

    The shorter side of the result still has at least `side` pixels.
    """
    shorter = min(image.size)
    image.draft("RGB", (image.width * side // shorter, image.height * side // shorter))


def _damaged(name: str, error: Exception) -> DamagedSampleError:
    from PIL import UnidentifiedImageError

    # Pillow's message for a file that is not an image contains a memory address.
    reason = "no JPEG or PNG image" if isinstance(error, UnidentifiedImageError) else str(error)
    return DamagedSampleError(f"data.uri: {name} is damaged ({reason}); upload it again")
