"""Matrices of which the tests try one path, and `make bench-full` the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_of(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of a parameter; all but the first are for the full matrix."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.full) for case in others)]
