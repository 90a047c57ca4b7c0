"""Define a finding of `doctor`: what was examined, its state, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from distrain.workload.wording import listed

OK, MISSING, UNKNOWN = "ok", "missing", "unknown"
# Marks a part that the cluster does not have and that only some jobs need. A healthy cluster may be without it.
ABSENT = "absent"
# Marks a job or pod that still runs although its release no longer exists.
LEFT = "left"
# Marks a value of the run that the cluster accepts, but that harms the run.
WARNING = "warning"
# A line lists at most SHOWN names.
SHOWN = 5


class Finding(Struct, frozen=True):
    """One line of the report.

    If `needed` is true and the part is missing, no job can run. `details` are the numbers in `found`, for other
    programs.
    """

    section: str
    name: str
    state: str
    found: str
    next: str = ""
    needed: bool = False
    details: dict[str, Any] = field(default_factory=dict)


def some(names: Sequence[str]) -> str:
    """Return "a, b and c". For a long list, return the first names and how many others there are."""
    more = len(names) - SHOWN
    return listed(names) if more <= 1 else listed([*names[:SHOWN], f"{more} more"])


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
