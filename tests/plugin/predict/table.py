"""Generate docs/prediction.md: how predictions are made, and their errors against published measurements.

PYTHONPATH=plugin python -m tests.plugin.predict.table
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

from lab.paths import REPOSITORY
from tests.plugin.predict.published import Score, Table, scores, tables

PAGE = REPOSITORY / "docs" / "prediction.md"
TEXT = Path(__file__).with_name("page.md")
# NOMINAL maps the name of a network in the published descriptions of machines to its nominal bandwidth in bits/s.
NOMINAL = {"100 Gb/s": 100e9, "40 Gb/s": 40e9, "25 Gb/s": 25e9, "10 Gb/s": 10e9}


def page() -> str:
    """Return the page's text: page.md with the numbers and tables filled in."""
    parts = {
        "SUMMARY": _summary(scores()),
        "ERRORS": "\n".join(_errors()),
        "ALL": _all(),
        "LEFT_OUT": "\n".join(_left_out()),
        "REACHED": _reached(),
        "POINTS": "\n".join(_points()),
        "SOURCES": "\n".join(_sources()),
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<{name}>", part)
    return text


def _counted() -> list[Table]:
    return [table for table in tables() if not table.left_out]


def _mean(errors: Sequence[float]) -> float:
    return mean(map(abs, errors))


def _summary(found: Sequence[Score]) -> str:
    errors, constant = _mean([each.error for each in found]), _mean([each.constant for each in found])
    largest, low = max(abs(each.error) for each in found), sum(each.efficiency < 0.8 for each in found)
    return (
        f"The model predicted {len(found)} sizes of {len(_counted())} tables; {low} of these sizes have an efficiency\n"
        f"below 0.8. The mean error is {errors:.1%}, and the largest error is {largest:.1%}. If one assumes instead\n"
        f"that the efficiency of the largest fitted size does not change, the mean error is {constant:.1%}."
    )


def _errors() -> Iterator[str]:
    yield "| run | machines | exchange | sizes | mean error | largest | constant efficiency |"
    yield "|---|---|---|---|---|---|---|"
    for table in _counted():
        found = [score.error for score in table.scores]
        exchange = table.algorithm or "found"
        cells = (table.title, table.machines, exchange, str(len(found)), *_of(found))
        yield f"| {' | '.join(cells)} | {_mean([score.constant for score in table.scores]):.1%} |"


def _of(errors: Sequence[float]) -> tuple[str, str]:
    return f"{_mean(errors):.1%}", f"{max(map(abs, errors)):.1%}"


def _all() -> str:
    errors = [score.error for table in tables() for score in table.scores]
    return f"Together with these tables, the mean error over all {len(errors)} sizes would be {_mean(errors):.1%}."


def _left_out() -> Iterator[str]:
    yield "| run | machines | left out, because | sizes | mean error | largest |"
    yield "|---|---|---|---|---|---|"
    for table in tables():
        if table.left_out:
            errors = [score.error for score in table.scores]
            cells = (table.title, table.machines, table.left_out, str(len(errors)), *_of(errors))
            yield f"| {' | '.join(cells)} |"


def reached() -> dict[str, float]:
    """For each published table, return which share of the network's nominal bandwidth its series reached (median)."""
    found = {}
    for table in _counted():
        nominal = next((bits for words, bits in NOMINAL.items() if words in table.machines), 0.0)
        links = [series.constants(table.algorithm).network.between for series in table.series] if nominal else []
        if shares := [8 / link / nominal for link in links if link > 0]:
            found[table.id] = median(shares)
    return found


def _reached() -> str:
    shares = sorted(reached().values())
    low, high = shares[len(shares) // 4], shares[3 * len(shares) // 4]
    half = f"half of the tables are between {low:.0%} and {high:.0%}"
    return f"the median of {len(shares)} tables is {median(shares):.0%}, and {half}"


def _points() -> Iterator[str]:
    yield "| table | series | ranks | efficiency | error | constant efficiency |"
    yield "|---|---|---|---|---|---|"
    for score in scores():
        numbers = f"{score.efficiency:.2f} | {score.error:+.1%} | {score.constant:+.1%}"
        yield f"| {score.table} | {score.series} | {score.ranks} | {numbers} |"


def _sources() -> Iterator[str]:
    yield "| table | source |"
    yield "|---|---|"
    for table in tables():
        yield f"| {table.id} | {table.source} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
