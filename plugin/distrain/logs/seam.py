"""Join two reads of a log: no line is lost, and no line appears twice.

The API server can return a log only from a whole second on, so the second read repeats some lines of the first read.
The times of the lines are in nanoseconds. Equal lines may also have equal times, so the module counts how often each
line occurs in the first read, and drops as many copies of the line from the second read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from distrain.logs.stamps import second_of

# Two threads write the time stamps of a container's stdout and stderr, so a line may be a little older than the line
# before it.
MARGIN = 1


class Seam:
    """The newest lines that were received from one container, across all of its restarts."""

    def __init__(self) -> None:
        # For each second, the hashes of the lines with that second.
        self._seconds: dict[int, Counter[int]] = {}
        self._newest: int | None = None

    @property
    def since(self) -> int | None:
        """The second at which the next read starts, or None before the first line."""
        return None if self._newest is None else self._newest - MARGIN

    def add(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            second = second_of(line)
            # A line without a time stamp gets the newest second so far.
            found = self._newest or 0 if second is None else second
            if self._newest is None or found > self._newest:
                self._move(found)
            self._seconds.setdefault(found, Counter())[hash(line)] += 1

    def overlap(self) -> Overlap:
        """Return the lines that the next read will repeat."""
        return Overlap(sum(self._seconds.values(), Counter()))

    def _move(self, newest: int) -> None:
        self._newest = newest
        self._seconds = {second: found for second, found in self._seconds.items() if second >= newest - MARGIN}


class Overlap:
    """The lines that a read repeats from the previous read.

    `is_met` is true if a repeated line was found. This shows that the read continues the log of the same container.
    """

    def __init__(self, lines: Counter[int]) -> None:
        self._left = lines
        self.is_empty = not lines
        self.is_met = False

    def split(self, lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Split the lines at the first line that is known. Return the lines before it, and the new lines after it."""
        before: list[bytes] = []
        after: list[bytes] = []
        for line in lines:
            if not self._takes(line):
                (after if self.is_met else before).append(line)
        return before, after

    def new(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that were not received before."""
        return [line for line in lines if not self._takes(line)] if self._left else lines

    def _takes(self, line: bytes) -> bool:
        key = hash(line)
        if not self._left[key]:
            return False
        self._left[key] -= 1
        if not self._left[key]:
            del self._left[key]
        self.is_met = True
        return True
