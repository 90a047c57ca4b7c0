"""Test which case of a test runs in `make test` if all other cases run only in the full matrix."""

from __future__ import annotations

import pytest

from tests.matrix import leave_each_to_one

pytest_plugins = ("pytester",)

CASES = ("one", "two", "three")
TESTS = f"""
import pytest
by_all = pytest.mark.parametrize("program", {CASES})
@by_all
def test_first(program): pass
@by_all
@pytest.mark.parametrize("number", range(20))
def test_second(program, number): pass
"""


def chosen(pytester: pytest.Pytester, *, without: str) -> set[str]:
    items = [item for item in pytester.getitems(TESTS) if without not in item.name]
    for item in items:
        item.add_marker("shared")
    leave_each_to_one(items, "shared", "program", CASES)
    return {item.name for item in items if not item.get_closest_marker("full")}


def test_new_test_changes_no_others_case(pytester: pytest.Pytester) -> None:
    alone = chosen(pytester, without="first")

    both = chosen(pytester, without="nothing")

    assert {name for name in both if "second" in name} == alone
    assert len(alone) == 20
    assert {case for case in CASES for name in alone if name.endswith(f"-{case}]")} == set(CASES)
