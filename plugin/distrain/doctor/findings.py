"""A finding of `doctor`: what was looked for, whether it is there, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from distrain.workload.wording import listed

OK, MISSING, UNKNOWN = "ok", "missing", "unknown"
# What runs, though nobody needs it any more.
LEFT = "left"
# Names that a line holds.
SHOWN = 5


class Finding(Struct, frozen=True):
    """One line. Without what is `needed` no job can run; `details` are the figures in `found`, for programs."""

    section: str
    name: str
    state: str
    found: str
    next: str = ""
    needed: bool = False
    details: dict[str, Any] = field(default_factory=dict)


def some(names: Sequence[str]) -> str:
    """Return "a, b and c", or the first few and how many more there are."""
    more = len(names) - SHOWN
    return listed(names) if more <= 1 else listed([*names[:SHOWN], f"{more} more"])


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
