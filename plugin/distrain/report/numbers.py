"""Format numbers for people, choose units, and shorten long lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Place = tuple[float, float]


class Unit(NamedTuple):
    name: str
    size: float


TIMES = (Unit("days", 86400.0), Unit("h", 3600.0), Unit("min", 60.0), Unit("s", 1.0), Unit("ms", 1e-3))
BYTES = (Unit("TB", 1e12), Unit("GB", 1e9), Unit("MB", 1e6), Unit("kB", 1e3), Unit("B", 1.0))


def time_unit(seconds: float) -> Unit:
    """Return the largest unit in which a duration is at least 1; for days, at least 2."""
    return next((unit for unit in TIMES if seconds >= unit.size * (2 if unit.name == "days" else 1)), TIMES[-1])


def byte_unit(number: float) -> Unit:
    return next((unit for unit in BYTES if number >= unit.size), BYTES[-1])


def amount(number: float, unit: Unit | None = None) -> str:
    """Return a number of bytes as a text with its unit."""
    unit = unit or byte_unit(number)
    return f"{short(number / unit.size)} {unit.name}"


def duration(seconds: float | None, unit: Unit | None = None) -> str:
    """Return a duration as a text with its unit, such as 1.5 h. Return an empty string if the duration is unknown.

    All cells of a table's column get the same `unit`. Without `unit`, the duration has 3 digits.
    """
    if seconds is None:
        return ""
    if unit:
        return f"{short(seconds / unit.size)} {unit.name}"
    unit = time_unit(abs(seconds))
    number = seconds / unit.size
    return f"{short(number) if number >= 100 else f'{number:.3g}'} {unit.name}"


def counted(number: int, name: str) -> str:
    """Return a number and its noun, such as 1 step or 2 steps."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def short(number: float) -> str:
    """Return a number with at most 4 digits. A whole number keeps all of its digits."""
    if abs(number) >= 1000 and abs(number) < 1e15:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def spread(items: Sequence[T], most: int) -> list[T]:
    """Return at most `most` items at even distances, including the first and the last item."""
    if len(items) <= most:
        return [*items]
    most = max(2, most)
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]


def spread_by(items: Sequence[T], group: Callable[[T], str], most: int) -> list[T]:
    """Return at most `most` items of each group."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(group(item), []).append(item)
    return [item for each in groups.values() for item in spread(each, most)]


def steps_to(last: int) -> list[float]:
    """Return at most 65 numbers of ranks between 1 and `last`, for a smooth curve."""
    last = max(8, last)
    return [1 + number * (last - 1) / 64 for number in range(65)]


def thinned(places: Sequence[Place | None], most: int) -> list[Place | None]:
    """Return at most `most` points of a line that may have gaps.

    The first and the last point are kept. The points between them are divided into pieces. In each piece the points
    with the smallest and the largest value are kept, so that peaks remain visible.
    """
    known = [index for index, place in enumerate(places) if place is not None]
    if len(known) > most:
        length = math.ceil(2 * (len(known) - 2) / (most - 2))
        first, last = known[0], known[-1]
        places = [places[first], *_extremes(places[first + 1 : last], length), *places[last:]]
    return [*_without_repeated_gaps(places)]


def _extremes(places: Sequence[Place | None], length: int) -> Iterator[Place | None]:
    piece: list[Place] = []
    gap = False
    for place in places:
        if place is None:
            # With many restarts, most pieces of the line contain a gap. So do not end a piece at the gap, but draw the
            # gap after the piece.
            gap = True
            continue
        piece.append(place)
        if len(piece) == length:
            yield from _two_of(piece)
            if gap:
                yield None
            piece, gap = [], False
    yield from _two_of(piece)
    if gap:
        yield None


def _two_of(piece: Sequence[Place]) -> list[Place]:
    if not piece:
        return []
    ends = {min(range(len(piece)), key=lambda index: piece[index][1])}
    ends.add(max(range(len(piece)), key=lambda index: piece[index][1]))
    return [piece[index] for index in sorted(ends)]


def _without_repeated_gaps(places: Sequence[Place | None]) -> Iterator[Place | None]:
    before: Place | None = None
    for place in places:
        if place is not None or before is not None:
            yield place
        before = place
