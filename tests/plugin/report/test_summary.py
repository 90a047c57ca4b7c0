"""Test that the facts about a run and its events are whole and easy to compare."""

from __future__ import annotations

from distrain.report import summary
from distrain.report.panels import panels
from tests.plugin.report import records
from tests.plugin.report.records import event, start


def test_times_of_one_column_have_one_unit() -> None:
    runs = [records.run([start(0, 2), event("checkpoint", 16), event("checkpoint", 86), event("end", 150)])]

    panel = next(panel for panel in panels(runs) if panel.name == "events")
    assert {row[1].split()[1] for row in panel.table.rows} == {"min"}


def test_no_rate_is_cut_from_the_facts_of_the_picture() -> None:
    lines = summary.in_short(records.run(records.rescaled()))

    rates = " ".join(" ".join(lines).partition("mean throughput: ")[2].split())
    assert rates == "samples/s: 640 with 2 ranks, 960 with 3 ranks"
    assert max(map(len, lines)) <= summary.LONGEST_LINE
