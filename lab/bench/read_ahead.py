"""Compare how fast the trainer and a bare client read shards from a distant S3 server.

`PYTHONPATH=trainer python -m lab.bench.read_ahead` starts an S3 server behind a proxy, which delays each answer by 50
ms and limits each connection to 90 MB/s. A bare client and the trainer take turns to read all shards through the proxy,
with the same library, request size and number of concurrent requests. The bare client discards the data. The trainer
unpacks the tar files and shuffles, but does not decode. The bench fails if the trainer is slower than both limits:
SHARE of the bare client's speed, and GOAL images/s.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

from distrain_trainer.config import Config
from distrain_trainer.data import load
from distrain_trainer.data.formats import Dataset
from distrain_trainer.data.read_ahead import PIECE, REQUESTS
from distrain_trainer.data.sampler import part_of_epoch
from distrain_trainer.storage.s3 import connect
from lab.datasets.pictures import photographs, write_shards
from lab.s3.proxy import proxy_before
from lab.s3.server import Server, on_loopback

DELAY, RATE = 0.05, 90_000_000
SHARDS, SAMPLES, BYTES = 6, 500, 110_000
PAIRS = 5
GOAL, SHARE = 2500, 0.9


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch, on_loopback(Path(scratch) / "s3") as server:
        keys = _upload(server, Path(scratch) / "data")
        with (
            proxy_before(server.endpoint) as proxy,
            mock.patch.dict(os.environ, server.client_environment(proxy.endpoint)),
        ):
            dataset = load(Config(data="s3://bench", epochs=1))
            proxy.set(Delay=DELAY, Rate=RATE)
            pairs = [(_bare(keys), _trainer(dataset, epoch)) for epoch in range(PAIRS)]
    return _tell(pairs)


def _tell(pairs: list[tuple[float, float]]) -> int:
    bare, trainer = (statistics.median(each) for each in zip(*pairs, strict=True))
    share = statistics.median(own / other for other, own in pairs)
    print(f"shards from S3, {DELAY * 1000:.0f} ms, {RATE / 1e6:.0f} MB/s per connection, images of {BYTES} bytes:")
    print(f"bare client: {bare:.0f} images/s; trainer: {trainer:.0f} images/s, {share:.2f} of it (medians of {PAIRS})")
    return int(trainer < GOAL and share < SHARE)


def _upload(server: Server, folder: Path) -> dict[str, int]:
    """Upload the shards. Return the keys and their sizes in bytes."""
    written = write_shards(folder, _images(), [SAMPLES] * SHARDS, ".jpg")
    (folder / "sizes.json").write_text(json.dumps(written))
    client = server.boto3_client()
    client.create_bucket(Bucket="bench")
    for path in folder.iterdir():
        client.upload_file(str(path), "bench", path.name)
    return {name: (folder / name).stat().st_size for name in written}


def _images() -> Iterator[tuple[bytes, int]]:
    """Yield the same image again and again, padded with dots to BYTES bytes. Decoders ignore the padding."""
    [(image, label)] = photographs(1, size=224, classes=8)
    return itertools.repeat((image.ljust(BYTES, b"."), label))


def _bare(keys: dict[str, int]) -> float:
    client = connect("s3://bench", "data.uri")
    pieces = [(key, start) for key, size in keys.items() for start in range(0, size, PIECE)]

    def read(piece: tuple[str, int]) -> int:
        key, start = piece
        answer: Any = client.get_object(Bucket="bench", Key=key, Range=f"bytes={start}-{start + PIECE - 1}")
        return len(answer["Body"].read())

    started = time.perf_counter()
    with ThreadPoolExecutor(REQUESTS) as threads:
        read_bytes = sum(threads.map(read, pieces))
    assert read_bytes == sum(keys.values())
    return SHARDS * SAMPLES / (time.perf_counter() - started)


def _trainer(dataset: Dataset, epoch: int) -> float:
    samples = dataset.train
    part = part_of_epoch(len(samples), 32, seed=0, epoch=epoch, rank=0, ranks=1, shards=samples.shards)
    started = time.perf_counter()
    count = sum(len(works) for works in samples.works(part))
    assert count == SHARDS * SAMPLES
    return count / (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
