"""Define the interface of all data formats: a number of samples, which are read step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from distrain_trainer.data.augmentation import Moments
from distrain_trainer.data.sampler import Indices, Part

Shape = tuple[int, int, int]
Pixels = npt.NDArray[np.float32]

# A function that writes one or more samples into the images and labels of a batch. Called in a thread.
Work = Callable[[Pixels, Indices], None]


class Samples(Protocol):
    """The samples for training, or the samples for the test."""

    @property
    def shape(self) -> Shape:
        """Height, width and channels of every image."""

    @property
    def shards(self) -> Sequence[int]:
        """The number of samples in each file that is read sequentially.

        The sequence is empty for formats that store each sample in its own file.
        """

    @property
    def shuffle_buffer(self) -> int:
        """The number of samples in the buffer that shuffles the samples of `shards`; 0 if `shards` is empty."""

    def __len__(self) -> int: ...

    def works(self, part: Part) -> Iterator[list[Work]]:
        """For each step, yield the list of the functions that fill the rank's batch with samples.

        `part` says which samples of an epoch the rank reads.
        """


def put(image: npt.NDArray[np.uint8], place: Pixels, moments: Moments | None = None) -> None:
    """Write the bytes of an image into `place` as floats from 0 to 1. If `moments` is given, normalize the floats."""
    np.divide(image, 255, out=place, dtype=np.float32, casting="unsafe")
    if moments is not None:
        moments.normalize(place)


def size_text(shape: Shape) -> str:
    return "x".join(map(str, shape))
