"""Say in words and in tables what a run was, and how it ended."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from distrain.redact import redact
from distrain.report import numbers, texts
from distrain.report.figures import Run
from distrain.report.panels import count_words

# The table of values has at most MOST_VALUES rows. With several runs, longer cells are cut, so that a page stays below
# 1 MB.
MOST_VALUES = 200
LONGEST_NAME = 100
# At most LONGEST_LINE characters fit beside a plot of the PNG.
LONGEST_LINE = 60
# Of more runs than this, the PNG has room for only two lines each.
MOST_IN_SHORT = 3


class Row(NamedTuple):
    """A fact about the runs, with its value for each run. `differs` means that the values are not equal."""

    name: str
    cells: tuple[str, ...]
    differs: bool = False


def end_words(run: Run) -> str:
    """Return how the run ended, and why."""
    end = run.end
    if end is None:
        last = f"; its last line is of {last}" if (last := _time_of_last(run)) else ""
        return f"no end since the last start: the run still trains, or was killed{last}"
    accuracy = f"accuracy {end.accuracy:.4f}" if end.accuracy is not None else ""
    code = f"exit code {end.exit_code}" if end.exit_code else ""
    return ": ".join(filter(None, (end.cause or "ended", ", ".join(filter(None, (end.reason, code, accuracy))))))


def facts(runs: Sequence[Run]) -> list[Row]:
    """Return the known facts about each run as the rows of a table."""
    names = [*dict.fromkeys(name for run in runs for name, _ in _facts(run))]
    each = [dict(_facts(run)) for run in runs]
    return [Row(name, tuple(found.get(name, "") for found in each)) for name in names]


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    start, points = run.last_start, run.points
    yield "end", end_words(run)
    if start:
        yield "model", " ".join(filter(None, (start.model, f"with {start.framework}" if start.framework else "")))
    if run.sizes:
        yield "ranks", _sizes(run.sizes)
    yield from _progress(run)
    if began := _time_of_first(run):
        took = numbers.duration(run.line.seconds)
        yield "time", f"from {began}, {took}" if took else f"from {began}"
    if points:
        yield "last loss", _last_loss(run)
    if rates := run.rates():
        yield "mean throughput", _rates(rates)
    yield "events", count_words(run)
    if run.record.unreadable:
        number = run.record.unreadable
        yield "left out", f"{number:,} {'line' if number == 1 else 'lines'} of the record that cannot be read"
    for note in run.line.notes:
        yield "clocks", note
    yield "record", redact(run.place)


def _last_loss(run: Run) -> str:
    """Return the last loss. If a loss is NaN, also return the last number before it, and that number's step."""
    known = [(point.loss, point.step) for point in run.points if point.loss is not None]
    missing = sum(line.loss is None for line in run.record.of("step"))
    lines = f", and {numbers.counted(missing, 'line')} with none or NaN" if missing else ""
    loss, step = known[-1] if known else (None, None)
    number = "none" if loss is None else numbers.short(loss)
    if not run.ends_without_number:
        return f"{number}{lines}"
    place = "" if step is None else f" at step {step:,}"
    return f"NaN or infinite{f' (last number: {number}{place})' if known else ''}{lines}"


def _rates(rates: Mapping[int, float]) -> str:
    """Return the mean rate. If there are several numbers of ranks, return the mean rate of each."""
    if len(rates) == 1:
        return "".join(f"{numbers.short(rate)} samples/s" for rate in rates.values())
    some = [f"{numbers.short(rate)} with {numbers.counted(ranks, 'rank')}" for ranks, rate in rates.items()]
    return f"samples/s: {', '.join(_shortened(some))}"


def _shortened(items: Sequence[str]) -> Sequence[str]:
    return items if len(items) <= 8 else [*items[:4], "...", *items[-3:]]


def _sizes(sizes: Sequence[int]) -> str:
    return " \N{RIGHTWARDS ARROW} ".join(_shortened([f"{size:,}" for size in sizes]))


def _progress(run: Run) -> Iterator[tuple[str, str]]:
    start, points = run.last_start, run.points
    step = next((point.step for point in reversed(points) if point.step is not None), None)
    samples = next((point.samples for point in reversed(points) if point.samples is not None), None)
    if step is not None:
        planned = f" of {start.steps:,}" if start and start.steps else ""
        yield "steps", f"{step:,}{planned}"
    if samples is not None:
        size = (start.epoch_samples or 0) if start else 0
        passes = f", {samples / size:.3g} epochs" if size > 0 else ""
        yield "samples", f"{samples:,}{passes}"


def _time_of_first(run: Run) -> str:
    return next(filter(None, (_utc(line.unix_seconds) for line in run.record.lines)), "")


def _time_of_last(run: Run) -> str:
    return next(filter(None, (_utc(line.unix_seconds) for line in reversed(run.record.lines))), "")


def _utc(seconds: float | None) -> str:
    if seconds is None or not 0 < seconds < 1e11:
        return ""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def values(runs: Sequence[Run]) -> list[Row]:
    """Return the values of the last start of each run, without secrets.

    Values that are not the same in all runs come first.
    """
    each = [dict(_flat((run.last_start.values if run.last_start else None) or {})) for run in runs]
    names = [*dict.fromkeys(name for found in each for name in found)]
    rows = [Row(name, tuple(found.get(name, "") for found in each)) for name in names]
    rows = [row._replace(differs=len(set(row.cells)) > 1) for row in rows]
    most = texts.LONGEST // len(runs)
    return [_short(row, most) for row in sorted(rows, key=lambda row: not row.differs)]


def _short(row: Row, most: int) -> Row:
    return row._replace(
        name=texts.text(row.name, LONGEST_NAME), cells=tuple(texts.cut(cell, most) for cell in row.cells)
    )


def _flat(found: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}.")
        else:
            yield path, texts.of_value(path, value)


def of_several(runs: Sequence[Run]) -> list[str]:
    """Return the most important facts about several runs as short lines, for the PNG.

    A long fact continues in a second line if all runs then have a place.
    """
    most = 2 if len(runs) <= MOST_IN_SHORT else 1
    return [part for run in runs for line in _important(run) for part in _wrapped(line, most)]


def _important(run: Run) -> Iterator[str]:
    known = dict(_facts(run))
    figures = [f"{name} {known[name]}" for name in ("ranks", "last loss", "mean throughput") if name in known]
    yield f"{run.label}: {known['end']}"
    yield f"    {', '.join(figures)}"


def in_short(run: Run) -> list[str]:
    """Return the facts about a single run as short lines, for the PNG. A long fact continues in a second line."""
    lines = (f"{name}: {words}" for name, words in _facts(run) if name not in ("record", "clocks", "events"))
    return [part for line in lines for part in _wrapped(line, 2)]


def _wrapped(line: str, most: int) -> list[str]:
    return textwrap.wrap(line, LONGEST_LINE, subsequent_indent="    ", max_lines=most, placeholder=" ...")
