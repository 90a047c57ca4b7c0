"""How fast the trainer's data layer delivers by itself: no model takes part, so a training can be no faster.

`PYTHONPATH=trainer python -m lab.bench_data` prints it.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from distrain_trainer.config import Config
from distrain_trainer.data import load, train_batches
from lab import s3
from lab.digits import write_digits
from lab.pictures import photographs, write_image_folder, write_shards
from lab.waiting import wait_for_port

BATCH = 32
PHOTOGRAPHS, SIZE, CLASSES = 512, 224, 8
SHARD = 128
SECONDS = 5.0


def main() -> None:
    """Measure, and print a line per format and place."""
    for what, rate in measure().items():
        print(f"data layer, {what}: {rate:8.0f} images/sec")


def measure() -> dict[str, float]:
    """Return the images per second of one rank, by format and place."""
    with tempfile.TemporaryDirectory() as scratch, _s3_server(Path(scratch) / "s3") as server:
        folder = Path(scratch) / "data"
        names = _write(folder)
        _upload(server, folder)
        places = {"folder": str(folder), "S3 on loopback": "s3://bench"}
        with _environment(server):
            return {
                f"{what}, {place}": _images_per_second(f"{uri}/{name}")
                for what, name in names.items()
                for place, uri in places.items()
            }


def _write(folder: Path) -> dict[str, str]:
    """Write every format and return their folders by what they are."""
    (folder / "digits").mkdir(parents=True)
    write_digits(folder / "digits")
    write_image_folder(folder / "images", photographs(PHOTOGRAPHS, size=SIZE, classes=CLASSES), ".jpg")
    sizes = [SHARD] * (PHOTOGRAPHS // SHARD)
    written = write_shards(folder / "shards", photographs(PHOTOGRAPHS, size=SIZE, classes=CLASSES), sizes, ".jpg")
    (folder / "shards" / "sizes.json").write_text(json.dumps(written))
    jpegs = f"{SIZE}x{SIZE} JPEGs"
    return {"8x8 digits in idx files": "digits", f"{jpegs} in folders": "images", f"{jpegs} in shards": "shards"}


def _images_per_second(uri: str) -> float:
    config = Config(data=uri, batch_size=BATCH, epochs=1)
    batches = train_batches(config, load(config), rank=0, ranks=1)
    # What is read ahead of the first batch is not counted, nor is the time that it takes.
    for batch in itertools.islice(batches, 64 // BATCH):
        assert batch.samples
    started, images = time.perf_counter(), 0
    while (spent := time.perf_counter() - started) < SECONDS:
        images += next(batches).samples
    return images / spent


@contextmanager
def _s3_server(folder: Path) -> Iterator[s3.Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = s3.Server.new(f"127.0.0.1:{port}")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(server.command(folder), env=server.environment(), stdout=quiet, stderr=quiet) as process:
        try:
            wait_for_port("127.0.0.1", port)
            yield server
        finally:
            process.terminate()


def _upload(server: s3.Server, folder: Path) -> None:
    client = server.boto3_client()
    client.create_bucket(Bucket="bench")
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), "bench", str(path.relative_to(folder)))


@contextmanager
def _environment(server: s3.Server) -> Iterator[None]:
    """Set what the chart sets in a pod for S3."""
    variables: Mapping[str, str] = {
        "AWS_ENDPOINT_URL_S3": server.endpoint,
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
    }
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main()
