"""What every format offers: samples that are counted, and read step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from distrain_trainer.data.sampler import Indices, Part

Shape = tuple[int, int, int]
Pixels = npt.NDArray[np.float32]

# Puts one sample or more in their places of a batch's images and labels. Run in a thread.
Work = Callable[[Pixels, Indices], None]


class Samples(Protocol):
    """What to train on, or what to test on."""

    @property
    def shape(self) -> Shape:
        """Height, width and channels of every image."""

    @property
    def shards(self) -> Sequence[int]:
        """The sizes of the files in which samples lie in a row; none where each is read for itself."""

    def __len__(self) -> int: ...

    def works(self, part: Part) -> Iterator[list[Work]]:
        """Yield, for each step of a rank's part, the work that fills its batch."""


def put(image: npt.NDArray[np.uint8], place: Pixels) -> None:
    """Write bytes as floats from 0 to 1."""
    np.divide(image, 255, out=place, dtype=np.float32, casting="unsafe")


def size_text(shape: Shape) -> str:
    return "x".join(map(str, shape))
