"""Test reports about records in which a field contains a secret, an overflowing number or a long text."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from distrain.progress.steps import LARGEST
from distrain.record.read import Line
from distrain.report import page, summary
from distrain.report.figures import Run
from distrain.report.panels import panels
from tests.matrix import one_of
from tests.plugin.report import records
from tests.plugin.report.records import event, start

FIELDS = [name for name in Line.__struct_fields__ if name != "event"]
TEXTS = [name for name in ("framework", "model", "job", "checkpoint", "cause", "reason") if name in FIELDS]
MOST_BYTES = 1_000_000
ODD = {
    "10^400": 10**400,
    "-10^400": -(10**400),
    "1e300": 1e300,
    "tiny": 5e-324,
    "NaN": math.nan,
    "infinity": -math.inf,
    "text nan": "nan",
    "text inf": "inf",
    "text 1e300": "1e300",
    "text": "x",
    "list": [],
    "block": {},
    "true": True,
    "negative": -3,
}


def _texts(run: Run) -> list[str]:
    cells = [cell for row in (*summary.facts([run]), *summary.values([run])) for cell in row.cells]
    return [*cells, *summary.in_short(run), *(panel.words for panel in panels([run]))]


@pytest.mark.parametrize("figure", [pytest.param(each, id=name) for name, each in ODD.items()])
def test_every_field_may_hold_an_odd_figure(figure: Any) -> None:
    lines = records.rescaled()
    for name in FIELDS:
        of_all_events = [{**line, name: figure} for line in lines]
        for odd in (of_all_events, [*lines, *of_all_events]):
            words = " ".join(_texts(records.run(odd)))

            assert name in TEXTS or not re.search(r"\b(nan|inf)\b", words), (name, words)
            assert not re.search(r"\d{30}", words), (name, words)


@pytest.mark.parametrize("name", one_of(["10^400", "1e300", "tiny", "negative", "largest", "smallest"]))
def test_odd_figures_are_drawn(name: str) -> None:
    figure: Any = {**ODD, "largest": LARGEST, "smallest": -LARGEST}[name]
    lines = records.rescaled()
    whole = int(figure) if abs(figure) >= 1 else figure
    runs = [records.run([*lines, *({**line, name: whole} for name in FIELDS for line in lines)])]

    assert page.html(runs, panels(runs))
    assert page.png(runs, panels(runs)).startswith(b"\x89PNG")


def test_no_field_shows_a_secret() -> None:
    secret = "https://u:pw1@h/c?token=pw2 train --api-key pw3 --password=pw4\t--token\tpw5="
    values = {
        "data": "https://u:pw4@h/?t=pw5",
        "https://u:pw6@h/": "name",
        "arguments": ["--token=pw6", "--password", "pw7=="],
        "numbers": [1, "--token=pw8", ["--secret", "pw9"], {"a": "--token pw10", "token": "pw11"}],
        "extra": "--api-key pw12",
        "env": {"A": "pw13"},
        "sub": {"hf_token": "pw14", "of": {"words": "--token pw15"}},
    }
    told = dict.fromkeys(TEXTS, secret)
    lines = [{**line, **told} for line in records.rescaled()]
    lines += [{**start(90, 2, values=values), **told}, event("end", 99, **told)]

    runs = [records.run(lines), records.run([*lines[:-1]])]

    for shown in (runs[:1], runs):
        text = page.html(shown, panels(shown))
        assert re.findall(r".*pw\d+.*", text) == []
        assert "[hidden]" in text
    assert "pw" not in " ".join(_texts(runs[0]))


@pytest.mark.parametrize("words", ["KeyError: 'model'", "no space left on /data (key 3)", "the loss is nan at step 7"])
def test_reason_without_a_secret_is_shown(words: str) -> None:
    run = records.run([start(0, 2), event("end", 9, cause="failed", reason=words)])

    assert words in run.marks[-1].words
    assert words in summary.end_words(run)


def test_list_without_a_secret_is_shown_as_json() -> None:
    values = {"layers": [1, None, 2.5], "names": ["a", "b"], "block": {"a": {}}}

    rows = summary.values([records.run([start(0, 2, values=values)])])

    assert {row.name: json.loads(row.cells[0]) for row in rows} == {
        "layers": [1, None, 2.5],
        "names": ["a", "b"],
        "block.a": {},
    }


@pytest.mark.parametrize("count", one_of([1, 8]))
@pytest.mark.parametrize("character", one_of(['"', "x", "é"]))
def test_page_of_long_texts_is_small(count: int, character: str) -> None:
    long = character * 2000
    values = {f"{character * 200}{number}": long for number in range(2000)}
    lines = [{**line, **dict.fromkeys(TEXTS, long)} for line in records.rescaled() * 10]
    lines += [{**start(90, 2, values=values), "model": character * 1_500_000}, event("end", 9, reason=long)]
    runs = [records.run(lines)] * count

    text = page.html(runs, panels(runs))

    assert len(text.encode()) < MOST_BYTES
    assert "200 values; 1,800 others are left out." in text


def test_page_of_5_000_sizes_is_small() -> None:
    lines: list[dict[str, Any]] = []
    for number in range(1, 5001):
        lines += [start(10 * number, number), *records.steps(10 * number, number, 0, 0, count=1)]
    runs = [records.run(lines)] * 2

    text = page.html(runs, panels(runs))

    assert len(text.encode()) < MOST_BYTES
    assert max(len(row.cells[0]) for row in summary.facts(runs)) < 1000
