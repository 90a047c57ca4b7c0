"""How far a training has come, read from the log of its first rank."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

# The line of tf_cnn_benchmarks, which every framework's trainer writes.
STEP = re.compile(r"^(\d+)\timages/sec: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Training:
    """What would be lost: steps, None where no log tells, and the seconds since the ranks' start, None if unknown."""

    steps: int | None
    seconds: int | None


def last_step(logs: Iterable[str]) -> int | None:
    """Return the last step that a log tells, of the first one that tells any."""
    for log in logs:
        if found := STEP.findall(log):
            return int(found[-1])
    return None


def seconds_since(started_at: str | None, now: datetime) -> int | None:
    """Return the seconds since a moment as Kubernetes writes it."""
    if not started_at:
        return None
    return max(0, round((now - datetime.fromisoformat(started_at.replace("Z", "+00:00"))).total_seconds()))


def duration(seconds: int) -> str:
    """Return "45 s", "12 min" or "3 h 5 min"."""
    if seconds < 120:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
