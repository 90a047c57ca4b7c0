"""Define a Python file object whose subclasses supply the bytes. The length of the file may be unknown."""

from __future__ import annotations

import io


class RawFile(io.RawIOBase):
    """A file object that starts at offset `at`.

    A subclass defines `readinto`. This method reads bytes into a buffer, starting at offset `self.at`, and increases
    `self.at` by their number.
    """

    def __init__(self, at: int = 0) -> None:
        self.at = at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end is not known")
        self.at = offset + (self.at if whence == io.SEEK_CUR else 0)
        return self.at
