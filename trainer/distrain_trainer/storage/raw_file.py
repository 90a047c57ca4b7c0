"""A file whose bytes come from elsewhere, as a Python file object without a known end."""

from __future__ import annotations

import io


class RawFile(io.RawIOBase):
    """A file object that starts at the byte `at`. A subclass reads into a buffer from `self.at` on, and moves `at`."""

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
