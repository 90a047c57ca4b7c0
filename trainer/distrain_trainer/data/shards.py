"""Read tar shards in the layout of WebDataset: each sample is an image `key.jpg` and a class number `key.cls`.

Reading can begin at any sample of a shard, and is then sequential. A shard is never completely in memory.
"""

from __future__ import annotations

import io
import itertools
import json
import tarfile
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from distrain_trainer.data import read_ahead
from distrain_trainer.data.cache import Cache, reader_of
from distrain_trainer.data.images import SUFFIXES, Decoder
from distrain_trainer.data.read_ahead import ReadAhead, Span
from distrain_trainer.data.sampler import SHUFFLE_BUFFER, Indices, Part
from distrain_trainer.data.samples import Pixels, Shape, Work
from distrain_trainer.data.tars import BLOCK, content_of, files, opened
from distrain_trainer.errors import DataError
from distrain_trainer.storage import Store
from distrain_trainer.storage.raw_file import RawFile

SIZES = "sizes.json"
# The suffixes of the files of a sample.
PARTS = {".cls", *SUFFIXES}
# Bytes per read if only headers are read, and bytes per read if only the first sample is read.
WALKING, LOOKING = 4096, 1024**2
WALKERS = 16
# More samples than a tar of 2 TB can hold: each sample takes at least 2 KiB.
LARGEST_SHARD = 10**9
# In the included models a class takes 8 to 16 KB of weights, so with more classes the weights take gigabytes. A larger
# number is a mistake.
LARGEST_CLASS = 999_999
# Bytes of the samples in the shuffle buffer.
BUFFERED = 128 * 1024**2


@dataclass(frozen=True)
class Shard:
    """A tar file, its number of samples, and the byte offset of each sample if the offsets are known."""

    name: str
    samples: int
    starts: Sequence[int] | None = None


@dataclass(frozen=True)
class Sample:
    """A sample before decoding. `image` is empty if only headers and labels are read."""

    start: int
    name: str
    image: bytes
    label: int


@dataclass(frozen=True)
class Shards:
    """The samples of all shards. The samples are numbered consecutively, in the order of the shards' names."""

    store: Store
    files: Sequence[Shard]
    classes: int
    decoder: Decoder
    cache: Cache | None = None
    shuffle_buffer: int = SHUFFLE_BUFFER

    def __len__(self) -> int:
        return sum(self.shards)

    @property
    def shape(self) -> Shape:
        return self.decoder.shape

    @property
    def shards(self) -> list[int]:
        return [file.samples for file in self.files]

    def works(self, part: Part) -> Iterator[list[Work]]:
        stream = self.read(part.reading)
        held: dict[int, Sample] = {}
        for chosen, _ in part.steps:
            while missing := [number for number in chosen.tolist() if number not in held]:
                held.update(itertools.islice(stream, len(missing)))
            yield [
                partial(self._fill, slot, held.pop(number), part.epoch, number)
                for slot, number in enumerate(chosen.tolist())
            ]

    def _fill(self, slot: int, sample: Sample, epoch: int, number: int, images: Pixels, labels: Indices) -> None:
        self.decoder.fill(sample.image, sample.name, images[slot], epoch=epoch, sample=number)
        labels[slot] = sample.label

    def read(self, reading: Indices) -> Iterator[tuple[int, Sample]]:
        """Yield the samples in `reading` with their numbers, in that order.

        Within each shard, the sample numbers in `reading` must be ascending. A resumed run leaves out samples that were
        used before. If only a few samples between two wanted samples are left out, they are read and dropped; a longer
        gap is skipped.
        """
        runs = self._runs(reading)
        source = reader_of(self.cache, self.store, read_ahead.PIECE) if self.cache else self.store
        with closing(ReadAhead(source, [span_of(shard, first, count) for shard, first, count, _ in runs])) as ahead:
            for shard, first, count, numbers in runs:
                with ahead.next_file() as file:
                    samples = read_samples(file, self.store.path(shard.name), shard, first, count, classes=self.classes)
                    wanted = np.zeros(count, dtype=bool)
                    wanted[numbers - numbers[0]] = True
                    yield from zip(numbers.tolist(), itertools.compress(samples, wanted), strict=True)

    def _runs(self, reading: Indices) -> list[tuple[Shard, int, int, Indices]]:
        """Divide the samples in `reading` into pieces. Each piece is read sequentially from one shard.

        Return for each piece the shard, the index of its first sample in the shard, how many samples to read, and the
        numbers of the samples to yield.
        """
        starts = np.cumsum([0, *self.shards])
        # side="right": an empty shard and the next shard start at the same sample number, and the sample is in the next
        # one.
        owners = np.searchsorted(starts, reading, side="right") - 1
        breaks = (np.diff(owners) != 0) | (np.diff(reading) > self.shuffle_buffer)
        runs = []
        for numbers in np.split(reading, np.flatnonzero(breaks) + 1):
            if len(numbers):
                shard = int(np.searchsorted(starts, numbers[0], side="right")) - 1
                first, count = int(numbers[0] - starts[shard]), int(numbers[-1] - numbers[0]) + 1
                runs.append((self.files[shard], first, count, numbers))
        return runs


def span_of(shard: Shard, first: int, count: int) -> Span:
    """Return the part of a shard's file that contains `count` samples.

    `first` is the number of the first of these samples in the shard.
    """
    last = first + count
    if not shard.starts:
        return Span(shard.name, share=last / shard.samples)
    # Read the header that follows the last sample too: it shows that this sample is complete.
    return Span(shard.name, shard.starts[first], shard.starts[last] + BLOCK if last < shard.samples else None)


def read_samples(
    file: io.BufferedReader, path: str, shard: Shard, first: int, count: int, *, classes: int
) -> Iterator[Sample]:
    """Yield `count` samples of a shard, beginning with sample number `first`.

    `file` is positioned at the start of the Span that `span_of` returns for these samples. Raises DataError if the
    shard is damaged or wrong.
    """
    skipped = 0 if shard.starts else first
    with opened(file, path) as tar:
        samples = itertools.islice(_samples(tar, path, PARTS), skipped, None)
        for number in range(first, first + count):
            sample = next(samples, None)
            is_last = number + 1 == shard.samples
            if sample is None or (is_last and next(samples, None) is not None):
                raise _wrong_size(path, shard.samples, "fewer" if sample is None else "more")
            _require_class(sample, classes)
            yield sample


def _wrong_size(path: str, listed: int, found: str) -> DataError:
    return DataError(
        f"data.uri: {path} holds {found} samples than the {listed} that {SIZES} lists; correct {SIZES} or remove it"
    )


def first_sample(store: Store, shard: Shard, *, classes: int) -> Sample:
    """Return the first sample of the first shard that is not empty. Raises DataError, and StorageError."""
    file: io.BufferedReader = io.BufferedReader(_Ranges(store, shard.name), LOOKING)
    return next(read_samples(file, store.path(shard.name), shard, 0, 1, classes=classes))


def shuffle_buffer_for(store: Store, shard: Shard) -> int:
    """Return for how many samples a shuffle buffer of BUFFERED bytes has space, if they are as large as this shard's.

    The result is at least 1, and at most SHUFFLE_BUFFER. Raises StorageError.
    """
    size, _ = store.stat(shard.name)
    return max(1, min(SHUFFLE_BUFFER, BUFFERED * shard.samples // size))


def find_shards(store: Store, names: Sequence[str], folder: str) -> tuple[list[Shard], int | None]:
    """Return the shards in a folder with their numbers of samples, and the number of classes or None if unknown.

    The numbers of samples are in sizes.json. If sizes.json is missing, threads read the headers and labels of all
    shards. Raises DataError, and StorageError.
    """
    tars = [name for name in names if name.endswith(".tar")]
    if f"{folder}{SIZES}" in names:
        sizes = _read_sizes(store, f"{folder}{SIZES}", [name.removeprefix(folder) for name in tars])
        shards = [Shard(name, sizes[name.removeprefix(folder)]) for name in tars]
        _require_empty(store, [shard.name for shard in shards if shard.samples == 0])
        return shards, None
    walked = _walk_all(store, tars)
    return [shard for shard, _ in walked], max(classes for _, classes in walked)


def _require_empty(store: Store, names: Sequence[str]) -> None:
    """Read the shards that contain no sample according to sizes.json, because the training never opens these shards."""
    for shard, _ in _walk_all(store, names):
        if shard.samples:
            raise _wrong_size(store.path(shard.name), 0, "more")


def _read_sizes(store: Store, name: str, tars: Sequence[str]) -> dict[str, int]:
    path = store.path(name)
    try:
        sizes = json.loads(store.read(name))
        good = all(type(size) is int and 0 <= size <= LARGEST_SHARD for size in sizes.values())
    except (ValueError, AttributeError):
        good = False
    if not good:
        example = '{"shard-000000.tar": 1000}'
        raise DataError(f"data.uri: {path} does not map each shard to its number of samples; write it as in {example}")
    if sizes.keys() != set(tars):
        odd = min(sizes.keys() ^ set(tars))
        where = "is in the list, but not in the folder" if odd in sizes else "is in the folder, but not in the list"
        raise DataError(f"data.uri: {path} does not match its folder: {odd} {where}; correct the list or the folder")
    return dict(sizes)


def _walk_all(store: Store, names: Sequence[str]) -> list[tuple[Shard, int]]:
    with ThreadPoolExecutor(WALKERS) as walkers:
        return list(walkers.map(partial(_walk, store), names))


def _walk(store: Store, name: str) -> tuple[Shard, int]:
    """Read the headers and the labels of a shard. Return the shard, and the largest label in it plus 1."""
    path, starts, labels = store.path(name), [], [-1]
    file: io.BufferedReader = io.BufferedReader(_Ranges(store, name), WALKING)
    with opened(file, path) as tar:
        for sample in _samples(tar, path, {".cls"}):
            starts.append(sample.start)
            labels.append(sample.label)
    return Shard(name, len(starts), starts), max(labels) + 1


def _samples(tar: tarfile.TarFile, path: str, wanted: Set[str]) -> Iterator[Sample]:
    """Yield a shard's samples. Of each sample, read only the files whose suffix is in `wanted`.

    Raises DataError if a sample has no image or no label, or more than one.
    """
    for key, group in itertools.groupby(files(tar, path, PARTS), key=itemgetter(0)):
        found: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
        for _, suffix, header in group:
            if suffix in found:
                raise DataError(f"data.uri: {path}: {key} has two {suffix}; give each sample a key of its own")
            # Read a file's content before the next header, so that S3 sends no block twice.
            found[suffix] = header, content_of(tar, header) if suffix in wanted else b""
        picture = next((suffix for suffix in SUFFIXES if suffix in found), None)
        if picture is None or ".cls" not in found:
            lacks = "no .jpg, .jpeg or .png" if picture is None else "no .cls"
            again = "make the shard again, with an image and a .cls for each key"
            raise DataError(f"data.uri: {path}: {key} has {lacks} beside it; {again}")
        (image, content), (label, text) = found[picture], found[".cls"]
        start = min(header.offset for header, _ in found.values())
        yield Sample(start, f"{path}: {image.name}", content, _class_number(text, f"{path}: {label.name}"))


def _class_number(content: bytes, name: str) -> int:
    text = content.decode(errors="replace").strip()
    digits = text.lstrip("0") or text[-1:]
    # Python's int raises an error for thousands of digits.
    if not (text.isascii() and text.isdecimal() and len(digits) <= len(str(LARGEST_CLASS))):
        raise DataError(
            f"data.uri: {name} holds {text[:20]!r} instead of a class number from 0 to {LARGEST_CLASS}; correct it"
        )
    return int(digits)


def _require_class(sample: Sample, classes: int) -> None:
    if sample.label >= classes:
        raise DataError(
            f"data.uri: {sample.name} is of class {sample.label}, but this run has only {classes} classes, counted "
            f"from 0; correct its .cls, or add --classes={sample.label + 1} or more to trainer.extraArgs"
        )


class _Ranges(RawFile):
    """A file in a store, as a Python file object. Each read requests a byte range."""

    def __init__(self, store: Store, name: str) -> None:
        super().__init__()
        self._store, self._name = store, name

    def readinto(self, buffer: Any) -> int:
        content = self._store.read(self._name, start=self.at, length=len(buffer))
        buffer[: len(content)] = content
        self.at += len(content)
        return len(content)
