"""Decode images in memory with Pillow alone, one process on each core."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
from PIL import Image

from distrain_trainer.data.augmentation import Crops
from lab.bench.readers.program import RATIO, SCALE, SIDE
from lab.bench.readers.tar import samples_in

SECONDS = 3.0


def main(shard: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    start = multiprocessing.Barrier(cores)
    with shard.open("rb") as file, multiprocessing.Pool(cores, _keep, [start, [*samples_in(file)]]) as pool:
        print(json.dumps({"per_second": sum(pool.map(_decode, range(cores), chunksize=1))}))


def _keep(start: Barrier, samples: list[tuple[bytes, int]]) -> None:
    global _start, _samples
    _start, _samples = start, samples


def _decode(number: int) -> float:
    """Return this process's images per second."""
    random, crops = np.random.default_rng(number), Crops(SCALE, RATIO)
    _start.wait()
    started, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - started) < SECONDS:
        image = Image.open(io.BytesIO(_samples[count % len(_samples)][0]))
        box = crops.for_training(*image.size, random)
        image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box)
        count += 1
    return count / spent


if __name__ == "__main__":
    main(Path(sys.argv[1]))
