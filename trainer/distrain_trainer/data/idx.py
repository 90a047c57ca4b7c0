"""Read idx files compressed with gzip, the format of MNIST.

The files are small, so their whole content is kept in memory.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from distrain_trainer.data.augmentation import Moments
from distrain_trainer.data.sampler import Indices, Part
from distrain_trainer.data.samples import Pixels, Shape, Work, put
from distrain_trainer.errors import DataError
from distrain_trainer.storage import Store

TRAIN_FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
TEST_FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
UNSIGNED_BYTES = 0x08

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Arrays:
    """Images as bytes of shape (count, height, width, channels), and their labels of shape (count,)."""

    images: Bytes
    labels: Indices
    shards: tuple[int, ...] = ()
    shuffle_buffer: int = 0
    moments: Moments | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> Shape:
        height, width, channels = self.images.shape[1:]
        return height, width, channels

    def works(self, part: Part) -> Iterator[list[Work]]:
        # One call fills the whole batch, because copying one sample takes less time than a call.
        return ([partial(self._fill, chosen)] for chosen, _ in part.steps)

    def _fill(self, chosen: Indices, images: Pixels, labels: Indices) -> None:
        put(self.images[chosen], images[: len(chosen)], self.moments)
        labels[: len(chosen)] = self.labels[chosen]


def read_idx_files(store: Store, images_name: str, labels_name: str) -> Arrays:
    """Read a file of images and the file of their labels.

    Raises StorageError if a file cannot be read, and DataError if the files cannot be used.
    """
    images = _read_idx(store, images_name, dimensions=3)[..., np.newaxis]
    labels = _read_idx(store, labels_name, dimensions=1).astype(np.int64)
    if len(images) != len(labels):
        raise DataError(
            f"data.uri: {store.uri} has {len(images)} images in {images_name} and {len(labels)} labels in "
            f"{labels_name}; upload the two files that belong together"
        )
    if len(images) == 0:
        raise DataError(f"data.uri: {store.uri}/{images_name} holds no image; upload a file with images")
    return Arrays(images, labels)


def _read_idx(store: Store, name: str, *, dimensions: int) -> Bytes:
    content = store.read(name)
    try:
        return parse_idx(gzip.decompress(content), dimensions=dimensions)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"data.uri: {store.uri.rstrip('/')}/{name} is damaged ({error}); upload it again") from None


def parse_idx(content: bytes, *, dimensions: int) -> Bytes:
    """Parse an idx file of unsigned bytes.

    An idx file contains two zero bytes, the type, the number of dimensions, the size of each dimension, and the data.
    Raises ValueError if it is not an idx file of unsigned bytes in `dimensions` dimensions.
    """
    if content[:4] != bytes([0, 0, UNSIGNED_BYTES, dimensions]):
        raise ValueError(f"it starts with {content[:4].hex()}, not with 0000{UNSIGNED_BYTES:02x}{dimensions:02x}")
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
