"""Read the body of an S3 answer to its end, though the connection breaks on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# Connections that brought nothing, one after another, until a server counts as away.
FAILURES = 3
SECONDS_BETWEEN = 1.0
# What of a piece has come when its connection breaks is lost: pieces get smaller where nothing else comes through.
PIECE = 64 * 1024


class BrokenError(Exception):
    """No connection brings any more of the body."""


class Body:
    """The content of an object, or of a range of it. boto3 repeats requests, but not what is lost of their bodies.

    The rest is asked for by Range, and with If-Match: of an object that was written anew meanwhile all is read again.
    """

    def __init__(self, get: Callable[..., Any], start: int, length: int | None) -> None:
        """`get` is get_object, and takes more of its arguments by keyword."""
        self._get, self._start = get, start
        self._end = None if length is None else start + length
        self._size: int | None = None
        self.content, self.tag = bytearray(), ""

    def read(self) -> None:
        """Fill `content` and `tag`. Raises botocore's errors, and BrokenError."""
        failures = 0
        while self._size is None or len(self.content) < self._size:
            had = len(self.content)
            self._read_on(PIECE >> 4 * failures)
            failures = 0 if len(self.content) > had else failures + 1
            if failures == FAILURES:
                raise BrokenError(f"a connection ends after {len(self.content)} of {self._size} bytes")
            if failures:
                time.sleep(SECONDS_BETWEEN)

    def _read_on(self, piece: int) -> None:
        """Read as much as one connection brings."""
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        try:
            answer = self._get(**self._range(), **({"IfMatch": self.tag} if self.tag else {}))
        except ClientError as changed:
            if not self.tag or changed.response["Error"]["Code"] not in ("PreconditionFailed", "412", "InvalidRange"):
                raise
            self.content.clear()
            self._size, self.tag = None, ""
            return
        self.tag = answer["ETag"]
        if self._size is None:
            self._size = answer["ContentLength"]
        with suppress(BotoCoreError, HTTPError, OSError):
            while some := answer["Body"].read(piece):
                self.content += some

    def _range(self) -> dict[str, str]:
        first = self._start + len(self.content)
        if not first and self._end is None:
            return {}
        return {"Range": f"bytes={first}-{'' if self._end is None else self._end - 1}"}
