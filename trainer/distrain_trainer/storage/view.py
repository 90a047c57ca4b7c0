"""Make memory readable as a file, so that boto3 can upload it without copying it."""

from __future__ import annotations

import io
from typing import Any


class View(io.RawIOBase):
    """A file whose content is a memoryview. io.BytesIO would need a copy of the memory."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._place = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: len(self._content)}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, into: Any) -> int:
        piece = self._content[self._place : self._place + len(into)]
        into[: len(piece)] = piece
        self._place += len(piece)
        return len(piece)
