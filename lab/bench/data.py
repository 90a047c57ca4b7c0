"""Measure how fast the trainer's data layer delivers images, and whether it is fast enough for the models.

The first figure is the speed at which the data layer delivers images without a model. This speed is the upper limit for
any training. The second figure is a model's speed on real data from S3, divided by its speed on synthetic images of the
same size. Synthetic images need no storage. `PYTHONPATH=trainer python -m lab.bench.data` prints both figures.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

import numpy as np

from distrain_trainer.config import Config
from distrain_trainer.data import load, train_batches
from lab.builds import images
from lab.builds.trainer import run_trainer
from lab.datasets.digits import write_digits, write_idx
from lab.datasets.pictures import photographs, write_image_folder, write_shards
from lab.errors import LabError
from lab.s3.server import Server, on_loopback

BATCH = 32
PHOTOGRAPHS, SIZE, CLASSES = 512, 224, 8
SHARD = 128
SECONDS = 5.0
PAIRS = 3
TOTAL = "total images/sec:"
# Each model's data, and the trainer's arguments for a run that takes about half a minute on two cores.
FED = {
    "mnist": ("mnist", "--batch-size=32 --steps=1500"),
    "resnet50": ("shards", "--batch-size=4 --steps=12"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, on_loopback(Path(scratch) / "s3") as server:
        folder = Path(scratch) / "data"
        names = _write(folder)
        _upload(server, folder)
        _tell_delivery(folder, names, server)
        _tell_feeding(server)


def _tell_delivery(folder: Path, names: Mapping[str, str], server: Server) -> None:
    """Print how many images per second one rank receives, for each format and each storage."""
    with mock.patch.dict(os.environ, server.client_environment()):
        for what, name in names.items():
            for place, uri in {"folder": str(folder), "S3 on loopback": "s3://bench"}.items():
                print(f"data layer, {what}, {place}: {_images_per_second(f'{uri}/{name}'):8.0f} images/sec", flush=True)


def _tell_feeding(server: Server) -> None:
    """Print each model's speed on data from S3, as a share of its speed on synthetic images."""
    for framework in images.FRAMEWORKS:
        for model, (name, size) in FED.items():
            options = [f"--framework={framework}", f"--model={model}", "--log-every=1000", *size.split()]
            shares = [
                _rate(framework, [*options, f"--data=s3://bench/{name}"], server) / _rate(framework, options, server)
                for _ in range(PAIRS)
            ]
            told = f"{statistics.median(shares):.3f} x synthetic (median of {PAIRS} pairs)"
            print(f"{framework}, {model}, {name} from S3: {told}", flush=True)


def _rate(framework: str, options: Sequence[str], server: Server) -> float:
    command = ["mpirun", "-np", "1", "--bind-to", "none", "python3", "-m", "distrain_trainer", *options]
    done = run_trainer(framework, command, env=server.client_environment(), timeout=600)
    if done.returncode != 0:
        raise LabError(f"{framework}: the trainer ended with {done.returncode}: {done.stderr}")
    return float(done.stdout.partition(TOTAL)[2].split()[0])


def _write(folder: Path) -> dict[str, str]:
    """Write the images in each format into a folder of its own.

    Return a dict that maps each format's description to its folder.
    """
    (folder / "digits").mkdir(parents=True)
    write_digits(folder / "digits")
    write_image_folder(folder / "images", photographs(PHOTOGRAPHS, size=SIZE, classes=CLASSES), ".jpg")
    sizes = [SHARD] * (PHOTOGRAPHS // SHARD)
    written = write_shards(folder / "shards", photographs(PHOTOGRAPHS, size=SIZE, classes=CLASSES), sizes, ".jpg")
    (folder / "shards" / "sizes.json").write_text(json.dumps(written))
    _write_mnist(folder / "mnist")
    jpegs = f"{SIZE}x{SIZE} JPEGs"
    return {"8x8 digits in idx files": "digits", f"{jpegs} in folders": "images", f"{jpegs} in shards": "shards"}


def _write_mnist(folder: Path) -> None:
    """Write random pixels in MNIST's format: a third as many training images as MNIST has, and 10 test images."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for part, count in {"train": 20_000, "t10k": 10}.items():
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", random.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", random.integers(0, 10, count, dtype=np.uint8))


def _images_per_second(uri: str) -> float:
    config = Config(data=uri, batch_size=BATCH, epochs=1)
    batches = train_batches(config, load(config), rank=0, ranks=1)
    # Some batches have been prefetched. The measurement begins after these batches, and does not count them.
    for batch in itertools.islice(batches, 64 // BATCH):
        assert batch.samples
    started, images = time.perf_counter(), 0
    while (spent := time.perf_counter() - started) < SECONDS:
        images += next(batches).samples
    return images / spent


def _upload(server: Server, folder: Path) -> None:
    client = server.boto3_client()
    client.create_bucket(Bucket="bench")
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), "bench", str(path.relative_to(folder)))


if __name__ == "__main__":
    main()
