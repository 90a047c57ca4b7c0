"""Test that the tables in docs/scale.md show the committed results of `make bench-scale`."""

from __future__ import annotations

from lab.bench.scale import table
from lab.bench.scale.__main__ import read
from lab.written_part import END


def test_tables_of_the_page_are_those_of_the_results() -> None:
    page = table.PAGE.read_text("utf-8")

    assert f"{table.BEGIN}{table.text(read())}{END}" in page


def test_results_are_within_the_limits_of_objects() -> None:
    largest = [line["objects"][1][1] for line in read()]

    assert largest
    assert max(largest) < 2**20
