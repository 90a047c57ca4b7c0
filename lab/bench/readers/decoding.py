"""Decode images as PyTorch's libraries do it: with Pillow, and torchvision's transformations for training."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from PIL import Image
from torchvision import transforms

from lab.bench.readers.program import RATIO, SCALE, SIDE, Count

# Apply the transformations of PyTorch's ImageNet example (github.com/pytorch/examples, imagenet/main.py), except its
# normalization.
_TRANSFORM = transforms.Compose(
    [
        transforms.RandomResizedCrop(SIDE, scale=SCALE, ratio=RATIO),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
    ]
)


def to_pixels(content: bytes) -> Any:
    """Return an image file as a tensor of float32, of 3 x SIDE x SIDE values from 0 to 1."""
    return _TRANSFORM(Image.open(io.BytesIO(content)).convert("RGB"))


def counted(loader: Iterable[tuple[Any, Any]], decodes: bool) -> Iterator[Count]:
    """Read all batches, and yield the number of images and the number of bytes of each batch.

    Decoded images are one tensor per batch; without decoding, a batch is a list of files.
    """
    for images, _ in loader:
        yield len(images), images.nbytes if decodes else sum(map(len, images))
