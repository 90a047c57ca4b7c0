"""What every place for files can do: a folder and S3 alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from distrain_trainer.errors import MissingError


class Store(Protocol):
    """A place for files. `uri` says where, `value` which value named it."""

    @property
    def uri(self) -> str: ...

    @property
    def value(self) -> str: ...

    def path(self, name: str) -> str:
        """Return where a file lies, to tell people."""

    def names(self, folders: str = ".*") -> Iterator[str]:
        """Yield every file below, by its path from here. Raises StorageError when they cannot be listed.

        A top folder whose name does not match the regular expression `folders` may be left out.
        """

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return a file's content, or the part of it that there is from a byte on. Raises StorageError without it."""

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Write a file, whole or not at all. Raises StorageError when it cannot be written."""

    def delete(self, name: str) -> None:
        """Delete a file, if it is there. Raises StorageError when it cannot be."""

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        """Return a file's content and the tag of this very content, for write_if; None without such a file."""

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        """Write a file only if it still has the tag, or with None if it is not there, and return its new tag.

        Raises ConflictError when another process was first, StorageError when it cannot be written at all.
        """


def absent(store: Store, name: str, held: list[str]) -> MissingError:
    """Return the error of a file that is not there; `held` are some that are."""
    shown = ", ".join(held[:5]) + (", ..." if len(held) > 5 else "") if held else "nothing"
    return MissingError(
        f"{store.value}: {store.uri} has no {name} (it holds {shown}); put the file there or correct {store.value}"
    )
