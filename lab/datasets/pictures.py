"""Generate images in the two layouts that the trainer reads: one folder per class, or tar shards."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image


def numbered(count: int, *, size: int = 8, classes: int = 3) -> Iterator[tuple[bytes, int]]:
    """Yield PNG images, each with its class. The color of an image encodes the image's number."""
    for number in range(count):
        yield encode(np.full((size, size, 3), number, dtype=np.uint8), "PNG"), number % classes


def photographs(count: int, *, size: int, classes: int, seed: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield JPEG images of smooth colored noise.

    The files are about as large as photographs with the same number of pixels.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (size // 8, size // 8, 3), dtype=np.uint8))
        yield encode(np.asarray(coarse.resize((size, size))), "JPEG"), int(random.integers(classes))


def encode(pixels: npt.NDArray[np.uint8], kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def write_image_folder(folder: Path, samples: Iterator[tuple[bytes, int]], suffix: str = ".png") -> None:
    """Write each image to the file class-<class>/<number><suffix>."""
    for number, (content, label) in enumerate(samples):
        path = folder / f"class-{label}" / f"{number:05}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_shards(
    folder: Path, samples: Iterator[tuple[bytes, int]], sizes: Sequence[int], suffix: str = ".png"
) -> dict[str, int]:
    """Write tar shards of these sizes: shard-000000.tar and so on. Return the content of sizes.json."""
    folder.mkdir(parents=True, exist_ok=True)
    numbered_samples = enumerate(samples)
    written = {}
    for shard, size in enumerate(sizes):
        name = f"shard-{shard:06}.tar"
        with tarfile.open(folder / name, "w") as tar:
            for _ in range(size):
                number, (content, label) = next(numbered_samples)
                add(tar, f"{number:05}{suffix}", content)
                add(tar, f"{number:05}.cls", str(label).encode())
        written[name] = size
    return written


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file to the archive. The same content gives the same bytes."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
