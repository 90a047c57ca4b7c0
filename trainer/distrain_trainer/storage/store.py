"""Define the interface that a folder and an S3 bucket both have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from distrain_trainer.errors import MissingError


class Store(Protocol):
    """A storage for files.

    `uri` is the address of the store. `value` is the path of the chart value that contains this address, for example
    `data.uri`.
    """

    @property
    def uri(self) -> str: ...

    @property
    def value(self) -> str: ...

    def path(self, name: str) -> str:
        """Return a file's full path or URL, for messages."""

    def names(self, folders: str = ".*") -> Iterator[str]:
        """Yield the path of every file in the store, relative to `uri`. Raises StorageError if files cannot be listed.

        If `folders` is given, top-level folders whose names do not match this regular expression may be left out.
        """

    def all_names(self) -> list[str]:
        """Return the path of every file, in any order.

        `all_names` is faster than `names` if several folders contain many files.
        """

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return up to `length` bytes of a file, from offset `start` on.

        The result is shorter than `length` if the file ends earlier. Raises MissingError if the file does not exist,
        and StorageError if it cannot be read.
        """

    def read_into(self, name: str, place: memoryview, *, start: int = 0) -> int:
        """Read the bytes of a file from offset `start` on into `place`, until `place` is full or the file ends.

        Return the file's size. Raises MissingError if the file does not exist, and StorageError if it cannot be read.
        """

    def read_tagged_into(self, name: str, place: memoryview, *, start: int = 0) -> tuple[int, str]:
        """Read like `read_into`.

        Also return the file's size and the tag that `stat` returns for the content that was read. The tag is "" if the
        file has changed during the read, or if the store has no tags.
        """

    def stat(self, name: str) -> tuple[int, str]:
        """Return a file's size, and a tag that changes with the file's content. Raises StorageError."""

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Write a file either completely or not at all. Raises StorageError if the file cannot be written."""

    def extend(self, name: str, content: bytes, held: int) -> None:
        """Write a file whose first `held` bytes are already in the store.

        Raises StorageError if the file cannot be written. In a folder, only the new bytes are appended, so a program
        that has the file open sees them. S3 cannot append, so in S3 the whole file is uploaded.
        """

    def delete(self, name: str) -> None:
        """Delete a file if it exists. Raises StorageError if the file cannot be deleted."""

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        """Return the content of a file and the tag of that content. write_if needs the tag.

        Return None if the file does not exist.
        """

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        """Write a file only if its tag is still `tag`.

        If `tag` is None, write it only if it does not exist. Return its new tag. Raises ConflictError if another
        process has changed the file, and StorageError if it cannot be written.
        """


def absent(store: Store, name: str, held: list[str]) -> MissingError:
    """Return the error for a missing file. `held` are the names of some files that the store does contain."""
    shown = ", ".join(held[:5]) + (", ..." if len(held) > 5 else "") if held else "nothing"
    return MissingError(
        f"{store.value}: {store.uri} has no {name} (it holds {shown}); put the file there or correct {store.value}"
    )
