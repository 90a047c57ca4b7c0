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
    with shard.open("rb") as file:
        images = [image for image, _ in samples_in(file)]
    # The worker processes are forked, so each of them can read the list of images without a copy.
    ready: Barrier = multiprocessing.Barrier(cores)
    results: multiprocessing.Queue[tuple[float, float]] = multiprocessing.Queue()
    for number in range(cores):
        multiprocessing.Process(target=lambda number=number: results.put(_decode(images, ready, number))).start()
    rates, processor = zip(*(results.get() for _ in range(cores)), strict=True)
    print(json.dumps({"per_second": sum(rates), "processor": sum(processor) / cores}))


def _decode(images: list[bytes], ready: Barrier, number: int) -> tuple[float, float]:
    """Return how many images this process decodes per second, and its processor seconds per image."""
    random, crops = np.random.default_rng(number), Crops(SCALE, RATIO)
    ready.wait()
    started, used, count = time.perf_counter(), time.process_time(), 0
    while (spent := time.perf_counter() - started) < SECONDS:
        image = Image.open(io.BytesIO(images[count % len(images)]))
        box = crops.for_training(*image.size, random)
        np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box))
        count += 1
    return count / spent, (time.process_time() - used) / count


if __name__ == "__main__":
    main(Path(sys.argv[1]))
