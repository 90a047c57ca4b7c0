"""Store files in a folder."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from distrain_trainer.errors import ConflictError, StorageError
from distrain_trainer.storage.store import absent

# On a volume without file locks, flock fails with one of these errors, for example on Lustre mounted without the option
# `flock`.
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)


@dataclass(frozen=True)
class FolderStore:
    uri: str
    value: str

    def path(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def names(self, folders: str = ".*") -> Iterator[str]:
        # Follow symbolic links, because data sets often consist of them.
        for folder, within, files in os.walk(self.uri, followlinks=True, onerror=self._cannot_list):
            within[:] = [name for name in within if not _leads_up(Path(folder, name))]
            below = os.path.relpath(folder, self.uri)
            if below == ".":
                within[:] = [name for name in within if re.fullmatch(folders, name, re.DOTALL)]
            yield from (file if below == "." else f"{below}/{file}" for file in files)

    def all_names(self) -> list[str]:
        return [*self.names()]

    def _cannot_list(self, error: OSError) -> None:
        raise StorageError(
            f"{self.value}: {error.filename} cannot be listed: {error.strerror}; "
            f"mount the volume there, or correct {self.value}"
        )

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        with self._opened(name) as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def read_into(self, name: str, place: memoryview, *, start: int = 0) -> int:
        return self.read_tagged_into(name, place, start=start)[0]

    def read_tagged_into(self, name: str, place: memoryview, *, start: int = 0) -> tuple[int, str]:
        with self._opened(name) as file:
            before = _size_and_tag(file)
            file.seek(start)
            held = file.readinto(place)
            size, tag = _size_and_tag(file)
        # Another process may have truncated the file in the meantime.
        size = size if held == len(place) else min(size, start + held)
        return size, tag if (size, tag) == before else ""

    def stat(self, name: str) -> tuple[int, str]:
        with self._opened(name) as file:
            return _size_and_tag(file)

    @contextmanager
    def _opened(self, name: str) -> Iterator[io.BufferedReader]:
        path = Path(self.uri) / name
        try:
            with path.open("rb") as file:
                yield file
        except FileNotFoundError:
            held = sorted(entry.name for entry in Path(self.uri).glob("*"))
            raise absent(self, name, held) from None
        except OSError as error:
            raise StorageError(f"{self.value}: {path} cannot be read: {error.strerror}") from None

    def write(self, name: str, content: bytes | memoryview) -> None:
        path = Path(self.uri) / name
        unfinished = path.with_name(f".{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            # Remove the unfinished file, which would take space on a disk that may be full.
            with suppress(OSError):
                unfinished.unlink()
            raise self._cannot_write(path, error) from None

    def _cannot_write(self, path: Path, error: OSError) -> StorageError:
        if error.errno in WITHOUT_LOCKS:
            return StorageError(
                f"{self.value}: {path} cannot be locked: {error.strerror}; mount a volume with file locks (flock), "
                "or use S3"
            )
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some disk space" if is_full else f"mount a volume that user {os.getuid()} may write"
        return StorageError(f"{self.value}: {path} cannot be written: {error.strerror}; {remedy}")

    def extend(self, name: str, content: bytes, held: int) -> None:
        path = Path(self.uri) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            with path.open("r+b") as file:
                # If the file is shorter, somebody has deleted or truncated it.
                start = min(held, path.stat().st_size)
                file.seek(start)
                file.write(content[start:])
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._cannot_write(path, error) from None

    def delete(self, name: str) -> None:
        path = Path(self.uri) / name
        try:
            path.unlink(missing_ok=True)
            # Delete the folder if it is empty, because S3 has no empty folders either.
            if path.parent != Path(self.uri) and not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                raise StorageError(f"{self.value}: {path} cannot be deleted: {error.strerror}") from None

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        if not (Path(self.uri) / name).exists():
            return None
        content = self.read(name)
        return content, _tag(content)

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        with self._locked():
            held = self.read_tagged(name)
            if (held[1] if held else None) != tag:
                raise ConflictError(f"{self.value}: another process has changed {self.path(name)}")
            self.write(name, content)
        return _tag(content)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = Path(self.uri) / ".lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("w")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise self._cannot_write(path, error) from None
        with file:
            yield


def _leads_up(folder: Path) -> bool:
    """Return whether this is a link to one of the folders that contain the link. Its files would be listed again."""
    return folder.is_symlink() and any(folder.samefile(above) for above in folder.parents)


def _size_and_tag(file: io.BufferedReader) -> tuple[int, str]:
    told = os.fstat(file.fileno())
    return told.st_size, f"{told.st_mtime_ns}-{told.st_size}"


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Flush the directory entries of the folder to disk, so that a renamed file survives if the machine crashes."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
