"""Compare the trainer's data reader with MosaicML Streaming, WebDataset, torchdata and tf.data.

`make bench-readers` starts an S3 server behind a proxy, which delays each answer by 50 ms and limits each connection to
90 MB/s. The readers take turns to read the same images through the proxy, each in a new process and with an empty
cache. They first read the files without decoding them, and then decode them. The bench writes the medians to
docs/data.md. The bench fails if the trainer is slower than another reader, or decodes at less than SHARE of a bare
loop's speed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench.readers import pictures, table
from lab.bench.readers.program import SIDE
from lab.bench.readers.table import DISTRAIN, Figure, Figures, Size
from lab.builds import readers
from lab.errors import LabError
from lab.paths import REPOSITORY
from lab.s3.proxy import proxy_before
from lab.s3.server import Server, on_loopback

DELAY, RATE = 0.05, 90_000_000
PACKAGE = "lab.bench.readers"


@dataclass(frozen=True)
class Reader:
    """A data reader: its Python, its module, the format of its files, and how many worker processes it uses.

    `workers` has two numbers of worker processes: one for runs without decoding, and one for runs with decoding. There
    are more workers than the two cores, so that some workers can decode while others wait for S3. Each reader was about
    as fast with 2 or 8 workers as with 4.
    """

    python: Path
    module: str
    folder: str = pictures.TAR
    suffix: str = ".tar"
    workers: tuple[int, int] = (0, 0)


def all_readers() -> dict[str, Reader]:
    """Return the readers by name. Install the libraries that are not in the cache."""
    torch, tensorflow = readers.pytorch() / "python", readers.tensorflow() / "python"
    return {
        DISTRAIN: Reader(Path(sys.executable), "of_distrain"),
        "MosaicML Streaming": Reader(torch, "of_mosaicml", "mds", ".mds", workers=(8, 4)),
        "WebDataset": Reader(torch, "of_webdataset", workers=(8, 4)),
        "torchdata": Reader(torch, "of_torchdata", workers=(8, 4)),
        table.TF_DATA: Reader(tensorflow, "of_tfdata", "tfrecord", ".tfrecord"),
    }


@dataclass(frozen=True)
class Bench:
    """Runs of readers on the same images. `folder` has the tar shards."""

    readers: dict[str, Reader]
    size: Size
    folder: Path
    environment: dict[str, str]
    files: dict[str, str]

    def round(self, figures: Figures) -> None:
        """Measure each reader once, and then the trainer on local shards and a bare loop. Add to the figures."""
        for decodes in (False, True):
            for name in self.readers:
                figures[name, decodes].append(self._read(name, decodes))
        figures[table.OTHER_PIXELS, True].append(self._read(table.TF_DATA, True, "--not-antialiased"))
        figures[table.LOCAL, True].append(self._read(DISTRAIN, True, uri=str(self.folder / pictures.TAR)))
        figures[table.BARE, True].append(self._bare())

    def _read(self, name: str, decodes: bool, *more: str, uri: str = "") -> Figure:
        """Run a reader once. Raise LabError if the reader has not read all images."""
        reader = self.readers[name]
        uri = uri or f"s3://{pictures.BUCKET}/{reader.folder}"
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            options = [uri, f"--workers={reader.workers[decodes]}", f"--scratch={scratch}/cache"]
            options += [f"--files={self.files[reader.folder]}", *(["--decodes"] if decodes else []), *more]
            found = _run(reader.python, reader.module, options, self.environment)
        size = self.size.images * SIDE * SIDE * 3 * 4 if decodes else self.size.bytes
        if (found["images"], found["bytes"]) != (self.size.images, size):
            raise LabError(f"{name}: read {found}, and there are {self.size.images} images, {size} bytes")
        return _figure(found)

    def _bare(self) -> Figure:
        [shard, *_] = sorted((self.folder / pictures.TAR).glob("*.tar"))
        return _figure(_run(Path(sys.executable), "bare_decoding", [str(shard)], self.environment))


def _figure(found: dict[str, float]) -> Figure:
    return Figure(found["per_second"], found["processor"] * 1000)


def main() -> int:
    size, rounds = _arguments()
    found = all_readers()
    figures: Figures = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch, on_loopback(Path(scratch) / "s3") as server:
        folder = Path(scratch) / "data"
        formats = [
            pictures.Format(each.folder, each.python, f"{PACKAGE}.{each.module}")
            for each in found.values()
            if each.folder != pictures.TAR
        ]
        size = size.with_bytes(pictures.write(folder, size.shards, size.samples, formats))
        files = {each.folder: ",".join(_names(folder / each.folder, each.suffix)) for each in found.values()}
        pictures.upload(folder, server)
        with proxy_before(server.endpoint) as proxy:
            proxy.set(Delay=DELAY, Rate=RATE)
            bench = Bench(found, size, folder, _environment(server, proxy.endpoint, found), files)
            for number in range(rounds):
                bench.round(figures)
                _tell(number, figures)
    return table.write(figures, size)


def _arguments() -> tuple[Size, int]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--samples", type=int, default=500, help="in each shard")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    return Size(given.shards, given.samples), given.rounds


def _names(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == suffix)


def _tell(number: int, figures: Figures) -> None:
    told = ", ".join(
        f"{name}{' decoded' * decodes} {each[-1].per_second:.0f}" for (name, decodes), each in figures.items()
    )
    print(f"round {number + 1}, images/s, load {os.getloadavg()[0]:.1f}: {told}", flush=True)


def _run(python: Path, module: str, options: Sequence[str], environment: dict[str, str]) -> dict[str, float]:
    command = [str(python), "-m", f"{PACKAGE}.{module}", *options]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{module}: ended with {done.returncode}: {done.stderr[-2000:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def _environment(server: Server, endpoint: str, found: dict[str, Reader]) -> dict[str, str]:
    """Return the readers' environment variables. The AWS CLI is in PyTorch's environment."""
    programs = dict.fromkeys(str(reader.python.parent) for reader in found.values())
    return {
        **os.environ,
        "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
        **server.client_environment(endpoint),
    }


if __name__ == "__main__":
    sys.exit(main())
