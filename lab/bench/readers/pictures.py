"""Generate images of the size of ImageNet's, and upload them in the format of each reader."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from lab.datasets.pictures import write_shards
from lab.paths import REPOSITORY
from lab.s3.server import Server

# ImageNet's images are 400x350 pixels and 110 KB on average.
WIDTH, HEIGHT, QUALITY, NOISE = 500, 375, 92, 19
# The number of distinct images in the data set. The shards repeat them.
DIFFERENT = 100
BUCKET, TAR = "bench", "tar"


@dataclass(frozen=True)
class Format:
    """A file format, with the Python interpreter and the module that convert tar shards to it."""

    name: str
    python: Path
    module: str


def write(folder: Path, shards: int, samples: int, formats: list[Format]) -> int:
    """Write the shards, and convert them to the other formats. Return the total size of all images in bytes."""
    images = list(photographs(DIFFERENT))
    labelled = ((image, number % 8) for number, image in enumerate(itertools.cycle(images)))
    written = write_shards(folder / TAR, labelled, [samples] * shards, ".jpg")
    (folder / TAR / "sizes.json").write_text(json.dumps(written))
    for each in formats:
        command = [str(each.python), "-m", each.module, "write", str(folder / TAR), str(folder / each.name)]
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return sum(len(images[number % DIFFERENT]) for number in range(shards * samples))


def upload(folder: Path, server: Server) -> None:
    """Upload all files. Afterwards remove all files except the tar shards from the folder."""
    client = server.boto3_client()
    client.create_bucket(Bucket=BUCKET)
    for path in filter(Path.is_file, folder.rglob("*")):
        client.upload_file(str(path), BUCKET, str(path.relative_to(folder)))
    for other in folder.iterdir():
        if other.name != TAR:
            shutil.rmtree(other)


def photographs(count: int) -> Iterator[bytes]:
    """Yield JPEG images of smooth colors with noise."""
    random = np.random.default_rng(0)
    for _ in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (HEIGHT // 25, WIDTH // 25, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
        noisy = np.clip(smooth + random.normal(0, NOISE, (HEIGHT, WIDTH, 1)), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(noisy).save(file, "JPEG", quality=QUALITY)
        yield file.getvalue()
