"""Cache shards on a volume, for later epochs, for restarts, and for the other ranks of the pod.

The cache contains pieces of shards, each in its own file: one rank may read only a part of a shard, and another rank
the rest. Each piece is written to a temporary file that is then renamed, so no process sees an incomplete piece. The
name of a piece depends on the tag of the shard's content, so a shard that is replaced is read again. The least recently
used pieces are removed to make room.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import sys
import threading
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from distrain_trainer.config import Config
from distrain_trainer.errors import rank_from_environment
from distrain_trainer.storage import Store

VALUE = "data.cache"
SUFFIX, UNFINISHED = ".piece", ".part"
# The number of bytes of the checksum at the end of each piece.
CHECKSUM = 4
# The file `usage` contains a number with this many digits. Smaller numbers have leading zeros.
DIGITS = 20
# When the cache is full, pieces are removed until the cache uses only this share of its size limit.
SHARE_LEFT = 0.9
# An unfinished file that is older than SECONDS_UNFINISHED is removed, because its process was killed.
SECONDS_UNFINISHED = 600.0


@dataclass(frozen=True)
class Cache:
    """A folder for pieces of shards, and the maximum number of bytes in it."""

    folder: Path
    limit: int


def say_unused(config: Config) -> None:
    """Log on rank 0 that the data has no tar shards, so the cache that the values ask for stays empty."""
    if rank_from_environment() == 0:
        _say(
            f"{VALUE}.folder: {config.cache} stays empty, because only tar shards are cached, and data.uri "
            f"({config.data}) has none"
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# One reader per cache and store. The whole process shares it, so that each fault of the volume is logged only once.
_readers: dict[tuple[Cache, str], CachedReader] = {}


def reader_of(cache: Cache, store: Store, piece: int) -> CachedReader:
    """Return this process's reader of the store's files.

    The reader caches each file in pieces of `piece` bytes.
    """
    key = (cache, store.uri)
    if key not in _readers:
        _readers[key] = CachedReader(cache, store, piece)
    return _readers[key]


@dataclass
class CachedReader:
    """Read pieces of a store's files from the cache, or from the store if they are not cached. Threads may share it."""

    cache: Cache
    store: Store
    piece: int
    is_off: bool = False
    # Whether the log says that the limit is too low for a piece.
    is_told: bool = False
    _stats: dict[str, tuple[int, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        with self._heeding_faults():
            self.cache.folder.mkdir(parents=True, exist_ok=True)
            with self._usage() as usage:
                usage.set(self._trim(self.cache.limit))

    def read_into(self, name: str, place: memoryview, *, start: int = 0) -> int:
        """Read like Store.read_into.

        Raises StorageError if the store fails. If only the cache fails, the bytes are read from the store instead.
        """
        if self.is_off:
            return self.store.read_into(name, place, start=start)
        size, tag = self._stat(name)
        wanted = min(len(place), max(0, size - start))
        if wanted and self._is_read_from(self._path(name, tag, start), place[:wanted], start % self.piece):
            return size
        # The file may have been replaced after the call of `_stat`. So use the tag that arrives together with the
        # bytes.
        size, tag = self.store.read_tagged_into(name, place, start=start)
        held = min(len(place), max(0, size - start))
        if tag:
            self._stats[name] = size, tag
            # Keep only whole pieces. Only the last piece of a file may be shorter than the others.
            if held and not start % self.piece and held in (self.piece, size - start):
                self._keep(self._path(name, tag, start), place[:held])
        return size

    def _stat(self, name: str) -> tuple[int, str]:
        """Return the size and tag of a file, as the store last reported them.

        Only the first call for a file asks the store. After that, every read of the file reports its size and tag
        again.
        """
        if name not in self._stats:
            self._stats[name] = self.store.stat(name)
        return self._stats[name]

    def _path(self, name: str, tag: str, start: int) -> Path:
        key = hashlib.sha256("\0".join([self.store.uri, name, tag, str(self.piece)]).encode(errors="surrogateescape"))
        return self.cache.folder / f"{key.hexdigest()[:32]}-{start // self.piece:06}{SUFFIX}"

    def _is_read_from(self, path: Path, place: memoryview, first: int) -> bool:
        """Read a part of a cached piece into `place`, beginning at the piece's byte `first`.

        Return False if the piece is not in the cache.

        Remove the piece if it is damaged.
        """
        try:
            content = path.read_bytes()
        except OSError:
            return False
        body = memoryview(content)[:-CHECKSUM]
        if len(body) < first + len(place) or zlib.crc32(body).to_bytes(CHECKSUM, "big") != content[-CHECKSUM:]:
            with suppress(OSError):
                path.unlink()
            return False
        place[:] = body[first : first + len(place)]
        with suppress(OSError):
            os.utime(path)
        return True

    def _keep(self, path: Path, body: memoryview) -> None:
        """Write a piece to the cache, unless another rank has written it or the cache is full."""
        with self._lock, self._heeding_faults():
            if self.is_off or path.exists() or not self._may_ever_fit(len(body) + CHECKSUM):
                return
            # Process ids are not unique, because several pods share the volume.
            unfinished = path.with_suffix(f".{uuid.uuid4().hex}{UNFINISHED}")
            if not self._has_room(unfinished, len(body) + CHECKSUM):
                return
            try:
                with unfinished.open("r+b") as file:
                    file.write(b"".join([body, zlib.crc32(body).to_bytes(CHECKSUM, "big")]))
                with self._usage():  # Without the lock, a rank that counts the files could miss this one.
                    unfinished.replace(path)
            except OSError:
                unfinished.unlink(missing_ok=True)
                raise

    def _may_ever_fit(self, length: int) -> bool:
        """Return whether the cache's limit allows a piece of this length. If not, log this once."""
        limit = self.cache.limit
        if length > limit and not self.is_told:
            self.is_told = True
            _say(
                f"{VALUE}.size: {limit} bytes are less than a piece of a shard, which has {length}, so it is not "
                f"cached; give {self.piece + CHECKSUM} bytes or more"
            )
        return length <= limit

    def _has_room(self, unfinished: Path, length: int) -> bool:
        """Reserve space in the cache by creating a file of `length` bytes.

        Return False if there is no room, because pieces that other ranks are writing now need it.
        """
        limit = self.cache.limit
        with self._usage() as usage:
            used = usage.get()
            if used is None:
                used = self._trim(limit)
            if used + length > limit:
                used = self._trim(max(0, int(limit * SHARE_LEFT) - length))
            has_room = used + length <= limit
            # Add the file's size before creating the file. If this process is killed in between, the number is too
            # large, and the next `_trim` corrects it. If the number were too small, the cache could exceed its limit.
            usage.set(used + length if has_room else used)
            if has_room:
                with unfinished.open("wb") as file:
                    file.truncate(length)
        return has_room

    def _trim(self, most: int) -> int:
        """Remove the least recently used pieces until all files take at most `most` bytes. Return the bytes left."""
        pieces, total = [], 0
        for entry in os.scandir(self.cache.folder):
            with suppress(FileNotFoundError):
                told = entry.stat()
                if entry.name.endswith(UNFINISHED) and time.time() - told.st_mtime > SECONDS_UNFINISHED:
                    os.unlink(entry.path)
                elif entry.name.endswith((SUFFIX, UNFINISHED)):
                    total += told.st_size
                    pieces += [(told.st_mtime, told.st_size, entry.path)] if entry.name.endswith(SUFFIX) else []
        for _, size, path in sorted(pieces):
            if total <= most:
                break
            Path(path).unlink(missing_ok=True)
            total -= size
        return total

    @contextmanager
    def _usage(self) -> Iterator[_Usage]:
        """Open and lock the file that contains the number of cached bytes, so that no other rank changes it."""
        file = os.open(self.cache.folder / "usage", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield _Usage(file)
        finally:
            os.close(file)

    @contextmanager
    def _heeding_faults(self) -> Iterator[None]:
        """If the volume fails, log one line, and read from then on without the cache."""
        try:
            yield
        except OSError as error:
            self.is_off = True
            is_full = error.errno in FULL
            remedy = "free some disk space, or lower data.cache.size" if is_full else "mount a writable volume"
            _say(
                f"{VALUE}.folder: {self.cache.folder} cannot be written: {error.strerror}; the training goes on "
                f"without this cache; {remedy}"
            )


FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class _Usage:
    """The number of bytes in the cache, as DIGITS digits in an open file.

    The number of digits is fixed, so a single call writes the whole number. If the process is killed, the file contains
    either the old number or the new one.
    """

    file: int

    def get(self) -> int | None:
        """Return the number, or None if the file is new or damaged."""
        text = os.pread(self.file, DIGITS, 0)
        return int(text) if len(text) == DIGITS and text.isdigit() else None

    def set(self, count: int) -> None:
        os.pwrite(self.file, b"%0*d" % (DIGITS, count), 0)
