"""Read files that users name, which may also be pipes, or endless devices such as /dev/zero."""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol

    class Readable(Protocol):
        def read(self, size: int, /) -> bytes: ...


# The size limits in bytes for the files that distrain reads. Helm stores a release, compressed, in an object of at most
# 1 MiB.
VALUES = 16 * 2**20
TOKEN = 2**20
MANIFEST = 64 * 2**20
# This is enough for 150,000 pods (the most that Kubernetes supports) of 28 KiB each.
SNAPSHOT = 4 * 2**30
CHUNK = 2**20


def read(path: str | Path, most: int) -> bytes:
    """Return the content of a file, or of stdin for "-".

    Raise OSError also if the content has more than `most` bytes.
    """
    if path == "-":
        return rest(sys.stdin.buffer, most)
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        # `read` is fast here, because Python knows the file's size and reads it at once.
        return file.read() if stat.S_ISREG(found.st_mode) and found.st_size <= most else rest(file, most)


def rest(file: Readable, most: int) -> bytes:
    """Return the rest of an open file. Raise OSError also if the rest has more than `most` bytes."""
    parts: list[bytes] = []
    while part := file.read(CHUNK):
        parts.append(part)
        if sum(map(len, parts)) > most:
            unit, name = (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")
            raise OSError(errno.EFBIG, f"it is larger than {most // unit} {name}")
    return b"".join(parts)
