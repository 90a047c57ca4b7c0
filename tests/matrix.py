"""Mark the test cases that run only with FULL=1 (`make bench-full`)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def one_of(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of a parameter. The first case always runs. The other cases run only in the full matrix."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.full) for case in others)]


def leave_each_to_one(items: Iterable[pytest.Item], marker: str, parameter: str, cases: Sequence[str]) -> None:
    """For each test with this marker, choose one case of a parameter by a hash of the test's name.

    In `make test`, the test runs only with this case. Its other cases run only in the full matrix. Because of the hash,
    adding other tests or moving a file does not change the choice.
    """
    for item in items:
        if (
            not isinstance(item, pytest.Function)
            or not item.get_closest_marker(marker)
            or not hasattr(item, "callspec")
        ):
            continue
        if case := str(item.callspec.params.get(parameter, "")):
            without_case = re.sub(rf"(?<=[\[-]){re.escape(case)}(?=[]-])", "", item.name, count=1)
            if case != cases[zlib.crc32(f"{item.path.name}::{without_case}".encode()) % len(cases)]:
                item.add_marker("full")
