"""Read the time that kubelet writes before each line of a log, and write the time from which a log is to be read."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache

# A time stamp such as 2026-01-01T00:00:00.123456789Z, or one with the node's time zone. A space and the text of the
# line follow.
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)(?: |$)")


def second_of(line: bytes) -> int | None:
    """Return the second since 1970 at which the container wrote the line, or None for a line without a time."""
    found = STAMP.match(line)
    return _second(*found.groups()) if found else None


def without_stamp(line: bytes) -> bytes:
    found = STAMP.match(line)
    return line[found.end() :] if found else line


def written(second: int) -> str:
    """Return a time, in whole seconds since 1970, in the API's format.

    The API server would ignore a fraction of a second.
    """
    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def parsed(time: str | None) -> int | None:
    """Convert a time in a pod's status to seconds since 1970. Return None if there is no time."""
    return second_of((time or "").encode())


# Many lines have the same second, so the results are cached.
@lru_cache(maxsize=1024)
def _second(time: bytes, zone: bytes) -> int | None:
    try:
        return int(datetime.fromisoformat((time + zone.replace(b"Z", b"+00:00")).decode()).timestamp())
    except (ValueError, OverflowError):
        return None
