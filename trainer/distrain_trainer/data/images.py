"""Read and decode JPEG and PNG images from one folder per class. Each image is read when it is needed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

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
    """Decode files to images of one shape.

    Without `scales`, all images must have the shape of the image `first`. With `scales`, each image is scaled and
    cropped to the shape: at the centre, or, with `augments`, at a random place and with half of the images mirrored.
    """

    shape: Shape
    scales: bool
    first: str
    augments: bool
    seed: int

    def decode(self, content: bytes, name: str, *, epoch: int, sample: int) -> npt.NDArray[np.uint8]:
        """Decode an image. Raises DamagedSampleError if it cannot be decoded, DataError if it has another size.

        `epoch` and `sample` seed the random crop.
        """
        height, width, _ = self.shape
        try:
            image = _open(content)
            if self.scales:
                _decode_small(image, height)
            decoded = _as_rgb(image)
        # Pillow's decoders raise many types of exceptions.
        except Exception as error:
            raise _damaged(name, error) from None
        if self.scales:
            decoded = self._crop(decoded, np.random.default_rng((self.seed, epoch, sample)))
        elif (decoded.height, decoded.width) != (height, width):
            raise DataError(
                f"data.uri: {self.first} is {size_text(self.shape)} and {name} {decoded.height}x{decoded.width}x3; "
                f"{REMEDY.format(min(height, width))}"
            )
        return np.asarray(decoded)

    def _crop(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        height, width, _ = self.shape
        from PIL import Image, ImageOps

        across, down = random.random(2) if self.augments else (0.5, 0.5)
        cropped = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR, centering=(across, down))
        return ImageOps.mirror(cropped) if self.augments and random.random() < 0.5 else cropped


@dataclass(frozen=True)
class ImageFolder:
    """Images by their names in the store, and their labels."""

    store: Store
    names: Sequence[str]
    labels: Indices
    decoder: Decoder
    shards: tuple[int, ...] = ()

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
        put(self.decoder.decode(content, self.store.path(name), epoch=epoch, sample=sample), images[slot])
        labels[slot] = self.labels[sample]


def is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def shape_of(content: bytes, name: str) -> Shape:
    """Return an image's height, width and 3, from its header. Raises DamagedSampleError if it is not an image."""
    try:
        image = _open(content)
    except Exception as error:
        raise _damaged(name, error) from None
    return image.height, image.width, 3


def _open(content: bytes) -> Image.Image:
    # Imported here, as an image without Pillow can train on other data.
    from PIL import Image

    return Image.open(io.BytesIO(content), formats=("JPEG", "PNG"))


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # A PNG of 16 bits, of which Pillow's convert would make all above 255 white.
        from PIL import Image

        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def _decode_small(image: Image.Image, side: int) -> None:
    """Decode a JPEG at 1/2, 1/4 or 1/8 of its size if that is large enough for `side`, as it is faster."""
    shorter = min(image.size)
    image.draft("RGB", (image.width * side // shorter, image.height * side // shorter))


def _damaged(name: str, error: Exception) -> DamagedSampleError:
    from PIL import UnidentifiedImageError

    # Pillow's message for a file that is not an image contains a memory address.
    reason = "no JPEG or PNG image" if isinstance(error, UnidentifiedImageError) else str(error)
    return DamagedSampleError(f"data.uri: {name} is damaged ({reason}); upload it again")
