"""An S3 server that misbehaves as a test has it, and a clock for its outages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler


def tag_of(content: bytes) -> str:
    """Return the tag that S3 gives to a content."""
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


class Clock:
    """The time in place of Python's module: to sleep takes none of the test's."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Unsteady(BaseHTTPRequestHandler):
    """An S3 server of one object. Before each answer it asks `happens`, which may have it cut or refused."""

    content = b""
    heeds: tuple[str, ...] = ("Range", "If-Match")
    has_length = has_tag = True
    happens: Callable[[], int | str | None]
    asked: list[tuple[str | None, str | None]]

    def do_GET(self) -> None:
        happening = self.happens()
        self.asked.append((self.headers["Range"], self.headers["If-Match"]))
        if isinstance(happening, str):
            self._answer(503 if happening == "SlowDown" else 403, f"<Error><Code>{happening}</Code></Error>".encode())
        elif "If-Match" in self.heeds and self.headers["If-Match"] not in (None, tag_of(self.content)):
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        elif "Range" not in self.heeds:
            self._answer(200, self.content, until=happening)
        else:
            first, _, last = (self.headers["Range"] or "bytes=0-").removeprefix("bytes=").partition("-")
            part = self.content[int(first) : int(last) + 1 if last else None]
            self._answer(206, part, until=happening)

    def _answer(self, status: int, content: bytes, until: int | None = None) -> None:
        self.send_response(status)
        if self.has_length:
            self.send_header("Content-Length", str(len(content)))
        if self.has_tag:
            self.send_header("ETag", tag_of(self.content))
        self.end_headers()
        self.wfile.write(content[:until])

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
