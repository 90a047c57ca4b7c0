"""`python3 -m distrain_trainer.allreduce`: sum tensors of several sizes over all ranks, check and time the sums.

`helm test` runs this module on every rank. If sums of gradients were wrong, the job would continue the training, and no
other check would reveal the error.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from distrain_trainer.allreduce.backend import Backend
from distrain_trainer.errors import ArgumentError, TrainerError, end_rank

# For each backend, the modules that implement the all-reduce. The program uses the first module whose framework is
# installed.
BACKENDS = {
    "horovod": {"tensorflow": "horovod_tensorflow", "torch": "horovod_pytorch", "mxnet": "horovod_mxnet"},
    "torch": {"torch": "torch_distributed"},
}
UNITS = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
SIZES = "1Ki,8Ki,64Ki,512Ki,4Mi,64Mi"
HEADER = "     size     time/us  alg GB/s  bus GB/s"
BYTES_OF_A_FLOAT = 4
# The ranks sum small integers. float32 represents every integer up to LARGEST_EXACT exactly, so the order of the
# additions does not change such a sum.
LARGEST_EXACT = 2**24
VALUES = 1000


class SumError(TrainerError):
    """The ranks' sum is wrong."""

    exit_code = 1


@dataclass(frozen=True)
class Options:
    backend: str
    sizes: tuple[int, ...]
    repeats: int

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ArgumentError(f"--repeats: {self.repeats} is below 1; give 1 or more")
        for size in self.sizes:
            if size < BYTES_OF_A_FLOAT or size % BYTES_OF_A_FLOAT:
                raise ArgumentError(f"--sizes: {size} bytes are no whole number of float32; give a multiple of 4")


def main(argv: Sequence[str]) -> None:
    # Do not let TensorFlow's C++ code log the CPU's features and other details.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        options = parse(argv)
        # Import the framework last, because this takes seconds: mistakes in the arguments are reported without waiting
        # for it.
        backend: Backend = importlib.import_module(module_of(options.backend)).connect()
        run(options, backend)
        backend.close()
    except (Exception, KeyboardInterrupt) as error:
        end_rank(error)


def module_of(backend: str) -> str:
    """Return the module that implements this backend with the framework in this image.

    Raises ArgumentError if no framework in the image fits the backend.
    """
    for package, module in BACKENDS[backend].items():
        if importlib.util.find_spec(package) is not None:
            return f"distrain_trainer.allreduce.{module}"
    raise ArgumentError(f"--backend: {backend} needs {' or '.join(BACKENDS[backend])}, which this image does not hold")


def run(options: Options, backend: Backend) -> None:
    """Measure the all-reduce for each size, and print the table on rank 0. Raises SumError if a sum is wrong."""
    say(backend, f"all-reduce of float32 over {backend.size} ranks, by {options.backend}")
    say(backend, HEADER)
    for size in options.sizes:
        mine = backend.put(values(backend.rank, size // BYTES_OF_A_FLOAT))
        # The first all-reduce also opens connections, so it is checked but not timed.
        require_right(backend.get(backend.all_reduce(mine)), ranks=backend.size, rank=backend.rank)
        say(backend, line(size, seconds=seconds_of_one(backend, mine, options.repeats), ranks=backend.size))
    # Run one more all-reduce. If another rank has failed, this rank waits here until the launcher ends it.
    backend.all_reduce(backend.put(values(backend.rank, 1)))
    say(backend, f"all-reduce is right on {backend.size} ranks: each rank got the correct sums")


def values(rank: int, count: int) -> NDArray[np.float32]:
    """Return a rank's numbers.

    Each index and each rank has other values. So an all-reduce that swaps elements returns wrong sums.
    """
    return (np.arange(count) % VALUES + rank + 1).astype(np.float32)


def expected(ranks: int, count: int) -> NDArray[np.float32]:
    """Compute the expected sum over all ranks: (index % VALUES) * ranks + (1 + 2 + ... + ranks)."""
    return ((np.arange(count) % VALUES) * ranks + ranks * (ranks + 1) // 2).astype(np.float32)


def require_right(total: NDArray[np.float32], *, ranks: int, rank: int) -> None:
    """Raise SumError unless every element of the sum is exact. The error shows the first wrong element."""
    right = expected(ranks, total.size)
    assert right.max() <= LARGEST_EXACT, f"{ranks} ranks are too many for exact sums"
    wrong = np.flatnonzero(total != right)
    if wrong.size:
        place = int(wrong[0])
        raise SumError(
            f"all-reduce: {wrong.size} of {total.size} sums are wrong on rank {rank}; the sum at index {place} "
            f"is {total[place]:g} instead of {right[place]:g}. The network, NCCL or MPI of these nodes corrupts "
            "gradients."
        )


def seconds_of_one(backend: Backend, mine: object, repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        backend.all_reduce(mine)
    return (time.perf_counter() - started) / repeats


def line(size: int, *, seconds: float, ranks: int) -> str:
    """Return one line of the table of results. `size` is in bytes.

    The bandwidths are defined as in NVIDIA's nccl-tests (doc/PERFORMANCE.md). The algorithm bandwidth is the size
    divided by the time. The bus bandwidth is the algorithm bandwidth times 2(N-1)/N, which is the traffic on each link
    in a ring all-reduce of N ranks.
    """
    algorithm = size / seconds / 1e9
    bus = algorithm * 2 * (ranks - 1) / ranks
    return f"{readable(size):>9}  {seconds * 1e6:10.1f}  {algorithm:8.3f}  {bus:8.3f}"


def readable(size: int) -> str:
    unit, factor = max(((unit, factor) for unit, factor in UNITS.items() if size >= factor), key=lambda pair: pair[1])
    return f"{size / factor:g} {unit}B"


def say(backend: Backend, text: str) -> None:
    if backend.rank == 0:
        print(text, flush=True)


def parse(argv: Sequence[str]) -> Options:
    """Parse a command line. Raises ArgumentError if the argument is invalid."""
    parser = _Parser(prog="distrain_trainer.allreduce", allow_abbrev=False)
    parser.add_argument("--backend", choices=sorted(BACKENDS), required=True, help="what the ranks train with")
    parser.add_argument("--sizes", default=SIZES, help="bytes of each tensor, such as 512,1Ki,64Mi")
    parser.add_argument("--repeats", type=int, default=10, help="how often each is timed")
    given = parser.parse_args(argv)
    return Options(given.backend, tuple(size_of(text) for text in given.sizes.split(",")), given.repeats)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{self.prog}: {message}")


def size_of(text: str) -> int:
    found = re.fullmatch(r"(\d+)(|Ki|Mi|Gi)", text.strip())
    if found is None:
        raise ArgumentError(f"--sizes: {text!r} is no size; give bytes, or KiB and MiB as 64Ki and 4Mi")
    return int(found[1]) * UNITS[found[2]]


if __name__ == "__main__":
    main(sys.argv[1:])
