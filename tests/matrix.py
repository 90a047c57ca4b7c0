"""Matrices of which the tests try one path, and `make bench-full` the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def one_of(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of a parameter; all but the first are for the full matrix."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.full) for case in others)]


def leave_each_to_one(items: Iterable[pytest.Item], marker: str, parameter: str, cases: Sequence[str]) -> None:
    """Leave each test with the marker to one case of a parameter, the next each time; the rest is the full matrix."""
    tests: dict[str, int] = {}
    for item in items:
        if (
            not isinstance(item, pytest.Function)
            or not item.get_closest_marker(marker)
            or not hasattr(item, "callspec")
        ):
            continue
        if case := str(item.callspec.params.get(parameter, "")):
            number = tests.setdefault(item.nodeid.replace(case, ""), len(tests))
            if case != cases[number % len(cases)]:
                item.add_marker("full")
