"""Split a response that comes in parts into lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# A longer line is cut: a program that never ends its line, such as one that draws a progress bar, would fill the
# memory.
LONGEST = 16 * 2**20
CUT = b" [distrain: the rest of this line is cut]"


def lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the complete lines of a response; drop a last line without a line break."""
    for block in blocks(parts, has_rest=False):
        yield from block


def blocks(parts: Iterable[bytes], *, has_rest: bool) -> Iterator[list[bytes]]:
    """For each part of the response, yield the lines that end in this part.

    With `has_rest`, also yield a last line without a line break.
    """
    unfinished = Unfinished()
    for part in parts:
        first, *more = part.split(b"\n")
        unfinished.add(first)
        if more:
            yield [unfinished.take(), *more[:-1]]
            unfinished.add(more[-1])
    if has_rest and (line := unfinished.take()):
        yield [line]


class Unfinished:
    """The parts of a line that is not complete yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> None:
        if self._size + len(part) > LONGEST:
            part = part[: max(0, LONGEST - self._size)] + (CUT if self._size <= LONGEST else b"")
        self._parts += [part] if part else []
        self._size += len(part)

    def take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line
