"""Define the interface that folders and S3 buckets share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from distrain_trainer.errors import MissingError


class Store(Protocol):
    """A storage for files. `uri` is its address, `value` the path of the chart value with this address (`data.uri`)."""

    @property
    def uri(self) -> str: ...

    @property
    def value(self) -> str: ...

    def path(self, name: str) -> str:
        """Return a file's full path or URL, for messages."""

    def names(self, folders: str = ".*") -> Iterator[str]:
        """Yield the path of every file in the store, relative to `uri`. Raises StorageError if files cannot be listed.

        Top-level folders whose name does not match the regular expression `folders` may be left out.
        """

    def all_names(self) -> list[str]:
        """Return the path of every file, in any order. Faster than `names` if several folders hold many files."""

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return up to `length` bytes of a file from byte `start` on. The result is shorter at the file's end.

        Raises MissingError if there is no such file, StorageError if it cannot be read.
        """

    def read_into(self, name: str, place: memoryview, *, start: int = 0) -> int:
        """Fill `place` with a file's bytes from byte `start` on, up to the file's end. Return the file's size.

        Raises MissingError if there is no such file, StorageError if it cannot be read.
        """

    def read_tagged_into(self, name: str, place: memoryview, *, start: int = 0) -> tuple[int, str]:
        """Read like `read_into`. Return the file's size, and the tag that `stat` returns for the content that was read.

        The tag is "" if the file has changed during the read, or if the store has no tags.
        """

    def stat(self, name: str) -> tuple[int, str]:
        """Return a file's size, and a tag that changes with the file's content. Raises StorageError."""

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Write a file completely or not at all. Raises StorageError if it cannot be written."""

    def extend(self, name: str, content: bytes, held: int) -> None:
        """Write a file whose first `held` bytes are in the store already. Raises StorageError if it cannot be written.

        In a folder only the rest is appended, so that programs that have the file open see it. To S3, which cannot
        append, the whole file is uploaded.
        """

    def delete(self, name: str) -> None:
        """Delete a file if it exists. Raises StorageError if it cannot be deleted."""

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        """Return a file's content and the tag of that content, for write_if. Return None if there is no such file."""

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        """Write a file only if it still has `tag`, or if `tag` is None and the file does not exist. Return its new tag.

        Raises ConflictError if another process has changed the file, StorageError if it cannot be written.
        """


def absent(store: Store, name: str, held: list[str]) -> MissingError:
    """Return the error for a missing file. `held` are some of the files in the store."""
    shown = ", ".join(held[:5]) + (", ..." if len(held) > 5 else "") if held else "nothing"
    return MissingError(
        f"{store.value}: {store.uri} has no {name} (it holds {shown}); put the file there or correct {store.value}"
    )
