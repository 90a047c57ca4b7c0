"""Test that the facts about a run and its events are whole and easy to compare."""

from __future__ import annotations

import re

import pytest

from distrain.report import numbers, summary
from distrain.report.panels import Panel, panels
from tests.plugin.report import records
from tests.plugin.report.records import event, start

AMOUNT = re.compile(r"[\d.,]+ ([A-Za-z/]+)")


def test_times_of_one_column_have_one_unit() -> None:
    runs = [records.run([start(0, 2), event("checkpoint", 16), event("checkpoint", 86), event("end", 150)])]

    panel = next(panel for panel in panels(runs) if panel.name == "events")
    assert {row[1].split()[1] for row in panel.table.rows} == {"min"}


def _units(panel: Panel, column: int) -> set[str]:
    """Return the units of a column's cells, such as `ms`, but not those of a bare number or a name."""
    return {found[1] for row in panel.table.rows if (found := AMOUNT.fullmatch(row[column]))}


def test_no_column_mixes_units() -> None:
    small = [start(0, 2, parameter_bytes=4_000), *records.steps(0, 2, 0, 0, wait=0.1), event("checkpoint", 16)]
    slow = [start(0, 8), *records.steps(0, 8, 0, 0, wait=0.1), event("end", 9000)]
    for line in slow:
        line.update({name: 100 * each for name, each in line.items() if name.endswith("_seconds_total")})

    drawn = panels([records.run(small), records.run(slow, "run2")])

    places = [(panel, column) for panel in drawn for column in range(len(panel.table.header))]
    found = {(panel.name, column): _units(panel, column) for panel, column in places}
    assert {name for (name, _), units in found.items() if units} >= {"events", "step", "all-reduce"}
    assert {place: units for place, units in found.items() if len(units) > 1} == {}


@pytest.mark.parametrize("number", [2, 3])
def test_no_rate_of_several_runs_is_cut_from_the_picture(number: int) -> None:
    lines = summary.of_several([records.run(records.rescaled(), f"run{each}") for each in range(number)])

    assert "mean throughput samples/s: 640 with 2 ranks, 960 with 3 ranks" in " ".join(" ".join(lines).split())
    assert [line for line in lines if line.endswith("...")] == []
    assert max(map(len, lines)) <= summary.LONGEST_LINE


def test_no_rate_is_cut_from_the_facts_of_the_picture() -> None:
    lines = summary.in_short(records.run(records.rescaled()))

    rates = " ".join(" ".join(lines).partition("mean throughput: ")[2].split())
    assert rates == "samples/s: 640 with 2 ranks, 960 with 3 ranks"
    assert max(map(len, lines)) <= summary.LONGEST_LINE


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((None, ""), (0.0, "0 ms"), (0.0123, "12.3 ms"), (0.99996, "1000 ms"), (90.0, "1.5 min"), (114.06, "1.9 min")),
        *((7200.0, "2 h"), (864000.0, "10 days"), (86400.0 * 4000, "4,000 days")),
    ],
)
def test_durations_have_a_unit(seconds: float | None, words: str) -> None:
    assert numbers.duration(seconds) == words
