"""Run one reader as a program: read all samples once, and print the number of images, their bytes, and the seconds.

Each library has its own Python environment, so this module imports nothing beyond Python's standard library.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# The side of a crop in pixels; the range of a crop's share of the image's area; the range of its aspect ratio.
SIDE = 224
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
BATCH = 32
# The number of samples in a shuffle buffer.
SHUFFLE = 1000
SEED = 0
# How long to wait, after the last batch, until the library's processes have ended. The processor time of a process that
# runs longer is not counted.
SECONDS_TO_END = 5.0

# prctl(2): orphans among the descendants of this process become its children.
PR_SET_CHILD_SUBREAPER = 36
# The number of images in a batch, and the number of their bytes.
Count = tuple[int, int]


@dataclass(frozen=True)
class Task:
    """The task of a reader: `uri` is a folder or s3://bucket/prefix with files in the reader's format.

    With `decodes`, the reader returns batches of float32 images. Each image has SIDE x SIDE pixels with values from 0
    to 1. It was cropped and mirrored at random, and scaled with antialiasing. Without `decodes`, the reader returns the
    image files as bytes. `scratch` is an empty folder for the reader's cache.
    """

    uri: str
    files: tuple[str, ...]
    decodes: bool
    workers: int
    scratch: str
    not_antialiased: bool


def run(open_reader: Callable[[Task], Iterable[Count]]) -> None:
    """Open the reader of the task on the command line, measure it, and print the result as JSON.

    Without decoding, the time is measured from the request of the first batch on, because the reader already fetches
    further files before it returns this batch. With decoding, the time is measured from the first batch on. Starting
    the processes takes a few seconds, which do not matter in a run of hours.
    """
    task = _task()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    reader = open_reader(task)
    used, started = _processor_seconds(), time.perf_counter()
    batches = iter(reader)
    first = next(batches)
    if task.decodes:
        started = time.perf_counter()
    counts = [first, *batches]
    seconds = time.perf_counter() - started
    images, size = (sum(each) for each in zip(*counts, strict=True))
    timed = images - first[0] if task.decodes else images
    _wait_for_orphans()
    used = _processor_seconds() - used
    print(json.dumps({"images": images, "bytes": size, "per_second": timed / seconds, "processor": used / images}))


def _wait_for_orphans() -> None:
    """Wait for the processes that the reader has left behind, because only then their processor time is counted."""
    deadline = time.monotonic() + SECONDS_TO_END
    try:
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)
    except ChildProcessError:
        pass


def _processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _task() -> Task:
    parser = argparse.ArgumentParser()
    parser.add_argument("uri")
    parser.add_argument("--files", type=lambda text: tuple(text.split(",")), default=())
    parser.add_argument("--decodes", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--scratch", default="")
    parser.add_argument("--not-antialiased", action="store_true")
    return Task(**vars(parser.parse_args()))
