"""Put the lines of a record on one time line, although each pod has written its times by its own clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from distrain.record.read import Line

# The first line of a new process has one of these events. The times of this line and of the following lines come from
# the clock of the new process's pod.
OF_A_NEW_PROCESS = ("kill", "rescale", "start")
# If a clock goes back by fewer seconds than this, the times are corrected, but the page does not mention it.
WORTH_A_NOTE = 5.0
# A time before 1970 or after 5138 must be a mistake.
LATEST = 1e11


class Timed(NamedTuple):
    """A line of a record, and the seconds that have passed since the first line that has a time."""

    line: Line
    seconds: float | None


class TimeLine(NamedTuple):
    """The lines of a record in their order, with times. No line has an earlier time than the line before it."""

    lines: tuple[Timed, ...]
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float | None:
        """Return the number of seconds from the first to the last line, or None if no line has a time."""
        return next((each.seconds for each in reversed(self.lines) if each.seconds is not None), None)


def time_line(lines: Sequence[Line]) -> TimeLine:
    """Compute the time of each line in seconds.

    The lines keep their order. If the clock of a process is behind the previous line, all times of the process are
    moved forward. Times that jump ahead stay as they are: the clock may be ahead, but the run may also have paused.
    """
    timed: list[Timed] = []
    moved: list[float] = []
    first, last, shift = None, 0.0, 0.0
    was_new = False
    for line in lines:
        is_new = line.event in OF_A_NEW_PROCESS
        if is_new and not was_new:
            shift = 0.0
        was_new = is_new
        seconds = line.unix_seconds
        if seconds is None or not (math.isfinite(seconds) and 0 < seconds < LATEST):
            timed.append(Timed(line, last if first is not None else None))
            continue
        if first is None:
            first = seconds
        elif seconds - first + shift < last:
            behind = last - (seconds - first + shift)
            shift += behind
            moved += [behind] if behind >= WORTH_A_NOTE else []
        last = seconds - first + shift
        timed.append(Timed(line, last))
    return TimeLine(tuple(timed), _notes(moved))


def _notes(moved: Sequence[float]) -> tuple[str, ...]:
    if not moved:
        return ()
    times = "once" if len(moved) == 1 else f"{len(moved):,} times"
    words = f"{times} a time was before that of the line above it, by up to {max(moved):,.0f} s"
    return (f"The clocks of the run's pods differ: {words}. Such times are moved forward.",)
