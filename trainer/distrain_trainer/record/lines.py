"""Write and read the lines of a record, and remove some if there are too many. docs/record.md has the format."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

VERSION = 1
# Maximum size of a record in bytes.
LIMIT = 1_000_000
# For each event, the maximum number of its lines that are kept, besides the newest line.
KEPT = {"step": 2000, "checkpoint": 500}
KEPT_OF_OTHERS = 200
# Texts that are longer than LONGEST_TEXT characters are cut, to keep lines short.
LONGEST_TEXT = 500

Line = dict[str, Any]


class UnreadableError(Exception):
    """The file is not a record, or it has a newer version."""


def line_of(event: str, number: int, figures: Mapping[str, Any]) -> Line:
    """Return a line. Figures that are None are left out. NaN and infinity become None, which is null in JSON."""
    known = {name: _clean(figure) for name, figure in figures.items() if figure is not None}
    return {"event": event, "number": number, "unix_seconds": _now(), **known}


def _now() -> float:
    """Return the time in Unix seconds, rounded to milliseconds."""
    return round(time.time(), 3)


def _clean(figure: Any) -> Any:
    if isinstance(figure, float):
        return round(figure, 6) if math.isfinite(figure) else None
    if isinstance(figure, str):
        return figure[:LONGEST_TEXT]
    return {name: _clean(each) for name, each in figure.items()} if isinstance(figure, dict) else figure


def render(lines: Sequence[Line], writer: str) -> tuple[bytes, list[Line]]:
    """Return a record's content with at most LIMIT bytes, and the lines that are left in it.

    `writer` identifies the process that writes the record. Raises UnreadableError if the lines take more than LIMIT
    bytes even after most of them are removed.
    """
    first = {"event": "record", "version": VERSION, "unix_seconds": _now(), "writer": writer}
    kept: Sequence[Line] = lines
    for divisor in (2**power for power in range(12)):
        kept = thin(kept, divisor)
        content = "".join(f"{json.dumps(line)}\n" for line in (first, *kept)).encode()
        if len(content) <= LIMIT:
            return content, list(kept)
    raise UnreadableError(f"its lines take more than {LIMIT} bytes")


def thin(lines: Sequence[Line], divisor: int = 1) -> list[Line]:
    """If an event has too many lines, keep the first one, the newest one, and some at even distances between them.

    The numbers of an event's lines must increase. Which lines are kept depends only on their numbers. So it does not
    matter whether some lines have been removed before.
    """
    newest = newest_numbers(lines)
    lengths = {event: _length(number, KEPT.get(event, KEPT_OF_OTHERS) // divisor) for event, number in newest.items()}
    kept, last = [], dict[str, int]()
    for line in lines:
        event, number = line["event"], line["number"]
        interval = (number - 1) // lengths[event]
        if last.get(event) != interval or number == newest[event]:
            kept.append(line)
        last[event] = interval
    return kept


def _length(newest: int, kept: int) -> int:
    """Divide the line numbers 1 to `newest` into at most `kept` intervals of equal length. Return this length.

    The length is a power of 2. `thin` keeps one line of each interval.
    """
    length = 1
    while newest > length * max(1, kept):
        length *= 2
    return length


def newest_numbers(lines: Iterable[Line]) -> dict[str, int]:
    """Return the number of the newest line of each kind of event."""
    return {line["event"]: line["number"] for line in lines}


def _numbered(lines: list[Line]) -> list[Line]:
    """Return the lines with the field `number`, which increases within each event.

    A line that a user's program has written may lack this field.
    """
    newest: dict[str, int] = {}
    for line in lines:
        event, number = line["event"], line.get("number")
        usual = newest.get(event, 0) + 1
        line["number"] = newest[event] = number if type(number) is int and number >= usual else usual
    return lines


def read(content: bytes) -> tuple[list[Line], str]:
    """Return the lines of a record, and the id of its last writer. If the last line is incomplete, it is dropped.

    Raises UnreadableError if another line cannot be read, or if the version is newer than VERSION.
    """
    texts = content.split(b"\n")
    found = []
    for number, text in enumerate(texts, 1):
        if text.strip():
            try:
                found.append(_parsed(text))
            except ValueError:
                if number < len(texts):  # If the text after the last newline is not empty, the last line is incomplete.
                    raise UnreadableError(f"line {number} is no JSON object with an event") from None
    version = found[0].get("version", VERSION) if found else VERSION
    if type(version) is not int or version > VERSION:
        raise UnreadableError(f"its version is {version!r:.20}, and this trainer writes version {VERSION}")
    lines = _numbered([line for line in found if line["event"] != "record"])
    return lines, str(found[0].get("writer", "")) if found else ""


def _parsed(text: bytes) -> Line:
    try:
        line = json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError from None
    if not isinstance(line, dict) or not isinstance(line.get("event"), str):
        raise ValueError
    return line
