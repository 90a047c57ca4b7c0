"""Pieces of scikit-learn's two photographs as JPEG images, a folder per class: real and never downloaded."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

SEED = 0


def upload_pictures(s3: Any, bucket: str, *, count: int, size: int = 224) -> None:
    """Put `count` pieces of each photograph under pictures/train/ of a bucket, through a boto3 client."""
    for name, content in pictures(count=count, size=size):
        s3.put_object(Bucket=bucket, Key=f"pictures/train/{name}", Body=content)


def pictures(*, count: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Yield (class/name.jpg, JPEG) for `count` square pieces of each photograph, anywhere in it."""
    samples, random = load_sample_images(), np.random.default_rng(SEED)
    for path, image in zip(samples.filenames, samples.images, strict=True):
        name = path.rpartition("/")[2].removesuffix(".jpg")
        for number in range(count):
            top, left = (random.integers(0, side - size + 1) for side in image.shape[:2])
            buffer = io.BytesIO()
            Image.fromarray(image[top : top + size, left : left + size]).save(buffer, "JPEG", quality=90)
            yield f"{name}/{number:05}.jpg", buffer.getvalue()
