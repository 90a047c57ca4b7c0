"""Format the status of runs for people: a screen for a single run, or one line for each of several runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from distrain.console import printable
from distrain.progress.start import one_line
from distrain.progress.steps import duration
from distrain.status.figures import LONG_AGO
from distrain.status.run import Run
from distrain.workload.wording import counted

# The number of lines on a screen without the line of the shell's prompt, and the smallest width for which the text is
# laid out.
LINES, NARROWEST = 23, 30
# The width of the labels, and their width on a narrow terminal. A terminal with fewer than NARROW columns is narrow.
LABEL, SHORT_LABEL, NARROW = 12, 10, 60
# On a terminal, a text is cut after MOST_LINES lines.
MOST_LINES = 4
BAR = 20

# A name is cut to no fewer than SHORTEST characters. Before a name gets shorter than WHOLE, other columns are left out.
# The reason needs at least LEAST_WHY characters to be on the same line as its run.
SHORTEST, WHOLE, LEAST_WHY = 6, 16, 20

Row = tuple[str, str]
Cells = tuple[str, ...]


def screen(run: Run, width: int | None = None) -> list[str]:
    """Return the lines that describe one run. If there is no width, as for a pipe, each fact has exactly one line."""
    rows = [(label, printable(words)) for label, words in _rows(run, width) if words]
    lines = [line for label, words in rows for line in _wrapped(label, words, width)]
    return lines if width is None else lines[:LINES]


def line(run: Run) -> str:
    """Return one line about a run, which is printed for each of the run's changes."""
    words = [f"{run.name}: {run.phase}", _workers(run)]
    if run.figures.step is not None:
        words += [f"step {_step(run, None)}", _speed(run)]
    if run.why:
        words.append(run.why)
    return ", ".join(filter(None, words))


def table(runs: Sequence[Run], width: int | None = None, *, namespaces: bool) -> list[str]:
    """Return a header, and a line for each run. With `namespaces`, each line begins with the run's namespace.

    On a narrow terminal, the reason for a phase has its own line.
    """
    rows: list[Cells] = [("NAME", "KIND", "PHASE", "WORKERS", "STEP", "AGE", "WHY"), *map(_cells, runs)]
    if namespaces:
        rows = [("NAMESPACE", *rows[0]), *((run.namespace, *row) for run, row in zip(runs, rows[1:], strict=True))]
    if width is not None:
        rows = _with_room(rows, width, names=2 if namespaces else 1)
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    is_narrow = width is not None and width - _size(rows) < LEAST_WHY and any(row[-1] for row in rows[1:])
    lines: list[str] = []
    for row in rows:
        why = printable(row[-1])
        cells = "  ".join(map(str.ljust, row, widths))
        lines += [cells, *([f"  {why}"] if why and row != rows[0] else [])] if is_narrow else [f"{cells}  {why}"]
    return [line if width is None else _cut(line, width) for line in map(str.rstrip, lines)]


def _with_room(rows: list[Cells], width: int, names: int) -> list[Cells]:
    """Make room for the other columns: leave out the kind and the age, and shorten the names in the first columns."""
    for column in ("KIND", "AGE"):
        place = rows[0].index(column)
        if _size([(*(name[:WHOLE] for name in row[:names]), *row[names:]) for row in rows]) > width:
            rows = [(*row[:place], *row[place + 1 :]) for row in rows]
    others = _size([row[names:] for row in rows])
    room = max(SHORTEST, (width - others) // names - 2)
    first = "NS" if rows[0][0] == "NAMESPACE" and room < len("NAMESPACE") else rows[0][0]
    rows = [(first, *rows[0][1:]), *rows[1:]]
    return [(*(_cut(name, room) for name in row[:names]), *row[names:]) for row in rows]


def _size(rows: Sequence[Cells]) -> int:
    """Return the width of all columns except the last one, which has the reason."""
    return sum(max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1])


def _cut(name: str, room: int) -> str:
    return name if len(name) <= room else f"{name[: room - 3]}..."


def _rows(run: Run, width: int | None) -> Iterator[Row]:
    figures = run.figures
    yield run.name, f"{run.phase}{f', in queue {run.queue}' if run.queue else ''}"
    yield "why", run.why
    yield "next", run.next
    yield "job", f"{run.kind} {run.job}, namespace {run.namespace}{_old(run)}"
    yield "workers", _workers(run)
    if figures.step is not None:
        yield "step", _step(run, width)
        yield "speed", _speed(run)
        yield "loss", "not known, or not a number" if figures.loss is None else f"{figures.loss:.6g}"
        yield "eta", "" if figures.eta_seconds is None or run.has_ended else duration(figures.eta_seconds)
        yield "checkpoint", _checkpoint(run)
        yield "source", "from the run's record" if run.from_record else ""
    counts = ((figures.restarts, "restart"), (figures.rescales, "rescale"))
    yield "restarts", ", ".join(_large(number, noun) for number, noun in counts if number is not None)
    for words in run.unread:
        yield "not read", words


def _large(number: int, noun: str) -> str:
    """Return a text such as "1 restart" or "10,000 restarts"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _old(run: Run) -> str:
    return "" if run.age_seconds is None else f", {duration(run.age_seconds)} old"


def _workers(run: Run) -> str:
    if run.has_ended:
        return counted(run.workers.wanted, "worker")
    if run.workers.ready is None:
        return f"{counted(run.workers.wanted, 'worker')} wanted"
    words = f"{run.workers.ready} of {counted(run.workers.wanted, 'worker')} ready"
    for group in run.others:
        if group.wanted == 1:
            words += f"; {group.role} {'runs' if group.ready else 'does not run'}"
        else:
            words += f"; {group.ready} of {counted(group.wanted, group.role)} ready"
    return words


def _step(run: Run, width: int | None) -> str:
    figures = run.figures
    age = figures.step_age_seconds
    when = f", {duration(age)} ago" if age is not None and age >= LONG_AGO and not run.has_ended else ""
    if not figures.steps or figures.step is None:
        return f"{figures.step}{when}"
    share = max(0.0, min(1.0, figures.step / figures.steps))
    done = int(share * BAR)
    bar = f" [{'#' * done}{'.' * (BAR - done)}]" if width and width >= NARROW else ""
    return f"{figures.step} of {figures.steps}{bar} {int(share * 100)} %{when}"


def _speed(run: Run) -> str:
    """Return the current rate and the mean rate. For a run that has ended, return only the mean rate."""
    now, mean = run.figures.images_per_second, run.figures.images_per_second_mean
    words = [f"{now:.1f} images/sec now"] if now is not None and not run.has_ended else []
    words += [f"{mean:.1f} images/sec on the whole"] if mean is not None else []
    share = f" ({run.efficiency:.0%} of as many single GPUs)" if run.efficiency is not None and words else ""
    return f"{', '.join(words)}{share}"


def _checkpoint(run: Run) -> str:
    figures = run.figures
    if figures.checkpoint is None and figures.checkpoint_step is None:
        return "none yet"
    age = figures.checkpoint_age_seconds
    words = [f"step {figures.checkpoint_step}"] if figures.checkpoint_step is not None else []
    words += [f"{duration(age)} ago"] if age is not None else []
    place = one_line(figures.checkpoint) if figures.checkpoint else ""
    return f"{', '.join(words)} ({place})" if words and place else ", ".join(words) or place


def _wrapped(label: str, words: str, width: int | None) -> list[str]:
    if width is None:
        return [f"{label:<{LABEL}} {words}"]
    size, width = LABEL if width >= NARROW else SHORT_LABEL, max(width, NARROWEST)
    # In the first line, `label` is the run's name (which may be long), and `words` contains the run's phase.
    label = _cut(label, max(size, width - len(words) - 1))
    return textwrap.wrap(
        words,
        width,
        initial_indent=f"{label:<{size}} ",
        subsequent_indent=" " * (size + 1),
        break_on_hyphens=False,
        max_lines=MOST_LINES,
        placeholder=" ...",
    )


def _cells(run: Run) -> tuple[str, ...]:
    figures = run.figures
    step = "" if figures.step is None else f"{figures.step}/{figures.steps}" if figures.steps else str(figures.step)
    age = "" if run.age_seconds is None else duration(run.age_seconds)
    return (
        run.name,
        run.kind,
        str(run.phase),
        f"{'?' if run.workers.ready is None else run.workers.ready}/{run.workers.wanted}",
        step,
        age,
        run.why,
    )
