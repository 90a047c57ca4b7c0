"""Test that docs/causes.md shows the same messages that the tests on the lab expect."""

from __future__ import annotations

from tests.cluster.why.table import PAGE, SORTS, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it with `python -m tests.cluster.why.table`"


def test_causes_have_names_of_their_own() -> None:
    names = [case.name for cases in SORTS.values() for case in cases]

    assert len(names) == len(set(names))


def test_causes_that_make_test_tries_do_not_disturb_other_tests() -> None:
    assert [cases[0].name for cases in SORTS.values() if cases[0].disturbs] == []
