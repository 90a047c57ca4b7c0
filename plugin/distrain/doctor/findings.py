"""Define a finding of `doctor`: what was examined, its state, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from distrain.workload.wording import listed

OK, MISSING, UNKNOWN = "ok", "missing", "unknown"
# Marks a job or pod that still runs although its release no longer exists.
LEFT = "left"
# Marks a value of the run that the cluster accepts, but that harms the run.
WARNING = "warning"
# A line lists at most this many names.
SHOWN = 5


class Finding(Struct, frozen=True):
    """One line of the report.

    If a `needed` finding is missing, no job can run. `details` are the figures in `found`, for programs.
    """

    section: str
    name: str
    state: str
    found: str
    next: str = ""
    needed: bool = False
    details: dict[str, Any] = field(default_factory=dict)


def some(names: Sequence[str]) -> str:
    """Return "a, b and c"; from a long list return the first names and the number of the others."""
    more = len(names) - SHOWN
    return listed(names) if more <= 1 else listed([*names[:SHOWN], f"{more} more"])


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
