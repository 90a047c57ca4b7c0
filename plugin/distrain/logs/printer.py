"""Write lines of logs to stdout: unchanged to a pipe or a file, but cleaned for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from distrain import console
from distrain.logs.stamps import without_stamp


class Printer:
    """Write blocks of lines. Each line gets its time if `timestamps` is set, and its pod's title if there is one."""

    def __init__(self, *, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._is_terminal = console.width() is not None

    def print(self, lines: Iterable[bytes], title: str = "") -> None:
        prefix = f"{title} | ".encode() if title else b""
        console.write(b"".join(prefix + self._shown(line) + b"\n" for line in lines))

    def _shown(self, line: bytes) -> bytes:
        line = line if self._timestamps else without_stamp(line)
        if not self._is_terminal:
            return line
        return console.terminal_line(line.decode(errors="backslashreplace")).encode(errors="backslashreplace")
