"""`make bench`: compare the pause for a checkpoint with memcpy, and a restart's reads with a bare S3 client.

For example, `PYTHONPATH=trainer python -m tests.trainer.benches.bench_saving 512 4096` measures states of 512 and 4096
MiB. The state consists of NumPy arrays, and no framework is used. A single rank saves and reads the whole state.

The S3 server runs on the same machine, and uses the same processors. A proxy makes the server as slow as a distant one:
each answer begins after 50 ms, and a connection transfers 90 MB/s. A restart reads the manifest and the files, and
verifies the checksums.
"""

from __future__ import annotations

import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from distrain_trainer.checkpoint import arrays, reader
from distrain_trainer.loop.run import Run
from distrain_trainer.storage.s3 import connect
from lab.s3.proxy import proxy_before
from lab.s3.server import Server, on_loopback
from tests.trainer.fixtures.counter_run import Counter, begin, make_step
from tests.trainer.fixtures.disk import wait_until

SIZES = (512,)
ARRAY_MIB = 16
ROUNDS = 3
# The proxy waits DELAY seconds before each answer, and limits a connection to RATE bytes per second.
DELAY, RATE = 0.05, 90_000_000
STEPS: dict[str, object] = {"steps": 10**9, "epochs": None}
# LONGEST_STALL limits the pause, divided by the time of memcpy. SLOWEST_RESTORE is the lowest reading rate, divided by
# that of a bare client.
LONGEST_STALL = 1.2
SLOWEST_RESTORE = 0.9
MIB = 1024**2


class Layers(Counter):
    """A state that consists of arrays with ARRAY_MIB each."""

    def __init__(self, mib: int) -> None:
        super().__init__()
        numbers = ARRAY_MIB * MIB // 4
        self.layers = {f"model.{layer}": np.full(numbers, layer, np.float32) for layer in range(mib // ARRAY_MIB)}

    def fields(self) -> arrays.Fields:
        layers = {name: arrays.Field.of(name, "float32", array.shape) for name, array in self.layers.items()}
        return {**super().fields(), **layers}

    def copy(self, into: arrays.Arrays, cuts: arrays.Cuts) -> None:
        held = {"model.weight": self.weight, **self.layers}
        for name, place in into.items():
            place[...] = arrays.elements(held[name], cuts.get(name), place.size)

    def load(self, found: arrays.Arrays) -> None:
        super().load(found)
        for name, array in self.layers.items():
            array[...] = found[name]


def main() -> int:
    """Print one line per size of the state. Return 1 if a figure exceeds its limit."""
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    are_good = [measure(size) for size in sizes]
    return int(not all(are_good))


def measure(mib: int) -> bool:
    """Save and read a state of this size, and print the figures. Return whether they are within the limits."""
    with tempfile.TemporaryDirectory() as folder, on_loopback(Path(folder) / "s3") as server:
        server.boto3_client().create_bucket(Bucket="bench")
        with of_server(server, server.endpoint), redirect_stdout(io.StringIO()):
            stall, copy = save(mib)
        with proxy_before(server.endpoint) as proxy, of_server(server, proxy.endpoint):
            proxy.set(Delay=DELAY, Rate=RATE)
            with redirect_stdout(io.StringIO()):
                bare, trainer = restore(mib)
    print(
        f"{mib} MiB: a checkpoint holds a step up for {stall:.3f} s, {stall / copy:.2f} x memcpy; resumes from S3 at "
        f"{mib / trainer:.0f} MiB/s, {bare / trainer:.2f} x a bare client",
        flush=True,
    )
    return stall <= LONGEST_STALL * copy and bare >= SLOWEST_RESTORE * trainer


@contextmanager
def of_server(server: Server, endpoint: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, server.client_environment(endpoint)):
        yield


def save(mib: int) -> tuple[float, float]:
    """Save a state.

    Return two median times in seconds: for the pause that a checkpoint causes in a step, and for a copy of the same
    arrays in memory.
    """
    state = Layers(mib)
    run = begin("s3://bench/run", state, checkpoint_every=0.001, checkpoint_keep=1, **STEPS)
    writer = run.writer
    assert writer
    make_step(run)
    # A thread allocates the buffer. Wait until the buffer has its full size.
    wait_until(lambda: len(run.buffer.span(0, mib * MIB)) == mib * MIB)
    places = {name: np.zeros_like(array) for name, array in state.layers.items()}
    stalls, copies = [], []
    for _ in range(ROUNDS):
        use(state)
        before = writer.stalled
        while writer.stalled == before:
            make_step(run)
        stalls.append(writer.stalled - before)
        use(state)
        copies.append(seconds_of(lambda: copy(state.layers, places)))
        make_step(run)  # The snapshot is written only if the next step is good, so make one.
        wait_until(lambda: not writer._is_busy)
    end(run)
    return statistics.median(stalls), statistics.median(copies)


def use(state: Layers) -> None:
    """Read all arrays, as each step of a training does.

    Memory that was not used for a minute is slower at its first use, so the first of two copies would take longer.
    """
    for array in state.layers.values():
        array.sum()


def copy(arrays: Mapping[str, Any], places: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        np.copyto(places[name], array)


def restore(mib: int) -> tuple[float, float]:
    """Return two median times in seconds: a bare client reads the checkpoint's files, and the trainer reads them."""
    client = connect("s3://bench", "checkpoint.uri")
    files = files_of(client)
    state, bare, trainer = Layers(mib), [], []
    for _ in range(ROUNDS):
        bare.append(seconds_of(lambda: read_bare(client, files)))
        trainer.append(resume(state))
    return statistics.median(bare), statistics.median(trainer)


def resume(state: Layers) -> float:
    """Resume a run. Return for how many seconds the new run reads the checkpoint."""
    newest_good, seconds = reader.newest_good, []

    def timed(*arguments: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        found = newest_good(*arguments, **options)
        seconds.append(time.perf_counter() - begun)
        return found

    with mock.patch.object(reader, "newest_good", timed):
        run = begin("s3://bench/run", state, **STEPS)
    assert run.resumed_from
    end(run)
    return seconds[0]


def end(run: Run) -> None:
    """End the threads of a run, as the end of its process would."""
    assert run.writer
    run.writer.lease._ended.set()
    run.writer.close()


def files_of(client: Any) -> dict[str, int]:
    """Return the names and sizes of the files in the only checkpoint."""
    found = client.list_objects_v2(Bucket="bench", Prefix="run/")["Contents"]
    names = [entry["Key"] for entry in found if "/state-" in entry["Key"]]
    return {name: client.head_object(Bucket="bench", Key=name)["ContentLength"] for name in names}


def read_bare(client: Any, files: Mapping[str, int]) -> None:
    """Read files into memory with boto3 alone.

    This client makes as many concurrent requests as the trainer, of the same size.
    """
    pieces = [
        (key, start, min(size, start + reader.PIECE))
        for key, size in files.items()
        for start in range(0, size, reader.PIECE)
    ]
    ends = np.cumsum([end - start for _, start, end in pieces])
    content = np.empty(ends[-1], np.uint8).data

    def read(piece: tuple[str, int, int], end: int) -> None:
        key, first, last = piece
        body = client.get_object(Bucket="bench", Key=key, Range=f"bytes={first}-{last - 1}")["Body"].read()
        content[end - len(body) : end] = body

    with ThreadPoolExecutor(reader.READS) as readers:
        list(readers.map(read, pieces, ends))


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
