"""Read the body of an S3 object completely, even if connections break meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# If FAILURES connections in a row end without a new byte, the server counts as unavailable.
FAILURES = 3
SECONDS_BETWEEN = 1.0
# Bytes per read. If a connection breaks, the bytes of the unfinished read are lost. So after each failure in a row, the
# next reads are smaller.
PIECE = 1024**2


class BrokenError(Exception):
    """Several attempts to read the rest of the body have failed."""


class Body:
    """The content of an object, or of a range of the object. boto3 repeats failed requests, but not failed reads of a
    body.

    After a connection breaks, only the remaining bytes are requested, with Range and If-Match. If the object was
    replaced in the meantime, all bytes are read again.
    """

    def __init__(
        self, get: Callable[..., Any], start: int, length: int | None, place: memoryview | None = None
    ) -> None:
        """Read `length` bytes from offset `start` on. If `place` is given, read them into it.

        `get` is boto3's get_object, with the bucket and the key already set.
        """
        self._get, self._start, self._place = get, start, place
        self._end = None if length is None else start + length
        self._size: int | None = None
        self.content, self.tag, self.held = bytearray(), "", 0
        self.object_size: int | None = None
        """The size of the whole object, None if no response has told it."""

    def read(self) -> None:
        """Read the bytes into `place` or `content`, and store their number in `held`.

        Raises botocore's exceptions and BrokenError.
        """
        failures = restarts = 0
        while self._size is None or self.held < self._size:
            had = self.held
            self._read_on(PIECE >> 4 * failures)
            failures = 0 if self.held > had else failures + 1
            restarts += self.held < had
            if FAILURES in (failures, restarts):
                raise BrokenError(f"a connection ends after {max(had, self.held)} of {self._size} bytes")
            if failures:
                time.sleep(SECONDS_BETWEEN)

    def _read_on(self, piece: int) -> None:
        """Read until the body is complete or the connection breaks."""
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        asked = self._range()
        try:
            answer = self._get(**asked, **({"IfMatch": self.tag} if self.tag else {}))
        except ClientError as changed:
            codes = ("PreconditionFailed", "412", "InvalidRange", "NotImplemented")
            if not self.held or changed.response["Error"]["Code"] not in codes:
                raise
            self._begin_again()
            return
        tag = answer.get("ETag", "")
        # The object has changed, but the server ignores If-Match and sends the new content.
        if self.held and tag != self.tag:
            self._begin_again()
            return
        self.tag = tag
        # A server that ignores the header Range sends the whole object.
        is_all = bool(asked) and answer["ResponseMetadata"]["HTTPStatusCode"] != 206
        skipped = self._start + self.held if is_all else 0
        if self._size is None:
            self._size = self._size_of(answer.get("ContentLength"), is_all)
            self.object_size = _object_size(answer, is_all=is_all or not asked)
        streamed = 0
        with suppress(BotoCoreError, HTTPError, OSError):
            while (self._size is None or self.held < self._size) and (some := answer["Body"].read(piece)):
                left = len(some) if self._size is None else skipped + self._size - self.held
                streamed += len(some)
                self._keep(some[skipped:left])
                skipped = max(0, skipped - len(some))
            if self._size is None:
                # The response had no Content-Length; its size is known now that it has ended.
                self._size = self.held
                self.object_size = streamed if is_all or not asked else None

    def _keep(self, some: bytes) -> None:
        if self._place is None:
            self.content += some
        else:
            # If the response gives no length, it may contain more bytes than requested.
            some = some[: len(self._place) - self.held]
            self._place[self.held : self.held + len(some)] = some
        self.held += len(some)

    def _begin_again(self) -> None:
        self.content.clear()
        self._size, self.tag, self.held = None, "", 0

    def _size_of(self, length: int | None, is_all: bool) -> int | None:
        """Return the number of bytes to read, from the Content-Length of a response.

        Return None if the response has no Content-Length.
        """
        if length is None or not is_all:
            return length
        return max(0, min(length, self._end or length) - self._start)

    def _range(self) -> dict[str, str]:
        first = self._start + self.held
        if not first and self._end is None:
            return {}
        return {"Range": f"bytes={first}-{'' if self._end is None else self._end - 1}"}


def _object_size(answer: dict[str, Any], *, is_all: bool) -> int | None:
    """Return the size of the whole object.

    If the response contains only a part, the size is in Content-Range (`bytes 0-99/1234`).
    """
    if is_all:
        return answer.get("ContentLength")
    size = answer.get("ContentRange", "").rpartition("/")[2]
    return int(size) if size.isdecimal() else None
