"""Define what each plot of a report shows: lines, points or bars, a sentence for screen readers, and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distrain.derive.formulas import all_reduce_bytes
from distrain.report import numbers
from distrain.report.figures import Mark, Point, Run, Times, all_reduces, ideal, like_last, subject_of
from distrain.report.numbers import Unit
from distrain.report.predicted import ASSUMED, predicted

# A point of a line in a plot; None interrupts the line.
Place = tuple[float, float] | None
# A page stays below 1 MB if a plot has at most MOST_POINTS points (in the lines of all runs together) and a table at
# most MOST_ROWS rows.
MOST_POINTS = 1500
MOST_ROWS = 60
MOST_MARKS = 120
EVENTS = ("start", "checkpoint", "rescale", "kill", "end")
# A step is divided into these parts. If the communication time is unknown, computation and communication form one part.
TOGETHER = "computation and communication"
PREDICTED = (
    " The other sizes are predicted from the smallest one, as `helm distrain predict` does, over "
    f"{ASSUMED / 1e9:.0f} Gbit/s between the ranks, which is assumed."
)
ONE_SIZE = (
    "All rates that can be compared are of one number of ranks. A rescale, or a second run of another size, shows how "
    "it scales."
)
PARTS = ("input", "communication", "computation", TOGETHER, "checkpoints")


class Series(NamedTuple):
    """A line.

    With `is_points` the points are drawn without a line. `run` is the index of the run, which decides the colour.
    """

    label: str
    run: int
    places: tuple[Place, ...]
    is_points: bool = False
    is_ideal: bool = False


class Bar(NamedTuple):
    """A bar with its parts: one part for each name in `Panel.parts`.

    If this bar does not have a part, the part is None.
    """

    label: str
    parts: tuple[float | None, ...]

    @property
    def length(self) -> float:
        return sum(part or 0.0 for part in self.parts)


class Table(NamedTuple):
    """The table for readers who cannot see a plot; `left_out` is the number of rows that the table does not show."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


class Panel(NamedTuple):
    """A plot. If there are neither series nor bars, the plot is not drawn, and `words` say why."""

    name: str
    title: str
    words: str
    across: str = ""
    up: str = ""
    series: tuple[Series, ...] = ()
    bars: tuple[Bar, ...] = ()
    parts: tuple[str, ...] = ()
    marks: tuple[tuple[str, float], ...] = ()
    table: Table = Table((), ())

    @property
    def is_drawn(self) -> bool:
        return bool(self.series or self.bars)


def panels(runs: Sequence[Run]) -> list[Panel]:
    """Return the plots about the runs, in the order in which the page shows them."""
    return [
        _over_time(runs, "loss", "Loss over time", "loss"),
        _over_samples(runs, "loss", "Loss over samples", "loss"),
        _over_time(runs, "rate", "Throughput over time", "samples/s"),
        _over_samples(runs, "rate", "Throughput over samples", "samples/s"),
        *_accuracies(runs),
        _events(runs),
        _scaling(runs),
        _step(runs),
        _all_reduce(runs),
    ]


def _over_time(runs: Sequence[Run], figure: str, title: str, up: str) -> Panel:
    unit = _time_unit(runs)
    panel = _over(runs, f"{figure}-time", title, up, figure, (f"time in {unit.name}", _seconds_in(unit)))
    return panel._replace(marks=tuple(_changes(runs, unit))) if panel.is_drawn and len(runs) == 1 else panel


def _over_samples(runs: Sequence[Run], figure: str, title: str, up: str) -> Panel:
    """Plot over samples. Plot over steps if the record of a run has steps but no samples."""
    has_samples = not any(_has_steps_alone(run) for run in runs)
    across = "samples" if has_samples else "steps"
    if not has_samples:
        title = title.replace("samples", across)
    return _over(runs, f"{figure}-{across}", title, up, figure, (across, _samples if has_samples else _steps))


def _has_steps_alone(run: Run) -> bool:
    points = run.points
    return any(point.step is not None for point in points) and all(point.samples is None for point in points)


Across = tuple[str, Callable[[Point], float | None]]


def _seconds_in(unit: Unit) -> Callable[[Point], float | None]:
    return lambda point: None if point.seconds is None else point.seconds / unit.size


def _samples(point: Point) -> float | None:
    return point.samples


def _steps(point: Point) -> float | None:
    return point.step


def _over(runs: Sequence[Run], name: str, title: str, up: str, figure: str, across: Across) -> Panel:
    series, words = [], []
    for number, run in enumerate(runs):
        places = _line(run, figure, across[1])
        if any(places):
            kept = numbers.thinned(places, max(100, MOST_POINTS // len(runs)))
            series.append(Series(run.label, number, tuple(kept)))
            name_of = f"{run.label}: {up}" if len(runs) > 1 else up.capitalize()
            words.append(_trend(name_of, places, is_lost=figure == "loss" and run.ends_without_number))
    if not series:
        kind = f"{up} that is a number" if figure == "loss" and any(run.ends_without_number for run in runs) else up
        return Panel(name, title, f"The record has no {kind} at a known place, so there is nothing to plot.")
    return Panel(name, title, " ".join(words), across[0], up, tuple(series), table=_table(series, across[0], up))


def _line(run: Run, figure: str, across: Callable[[Point], float | None]) -> list[Place]:
    """Return the points of a run's curve. The curve has a gap at each restart, and wherever a value is missing."""
    places: list[Place] = []
    for start in run.starts:
        for point in start.points:
            x, y = across(point), getattr(point, figure)
            places.append(None if x is None or y is None else (x, y))
        places.append(None)
    return places


def _accuracies(runs: Sequence[Run]) -> Iterator[Panel]:
    """Plot the accuracy between epochs against the number of samples; yield no plot if no run has tested it."""
    title, up = "Accuracy over samples", "accuracy"
    series, words = [], []
    for number, run in enumerate(runs):
        tests = run.record.of("evaluation")
        for name, kind in (("accuracy", "top-1"), ("top5_accuracy", "top-5")):
            # After a start from an older checkpoint, the trainer tests the model again at the same numbers of samples.
            # Use the last of these tests.
            known = {line.samples: getattr(line, name) for line in tests if line.samples is not None}
            places = [(float(samples), each) for samples, each in sorted(known.items()) if each is not None]
            if places:
                label = f"{run.label}, {kind}" if len(runs) > 1 else kind
                kept = tuple(numbers.spread(places, MOST_MARKS))
                series.append(Series(label, number, kept, is_points=kind == "top-5"))
                words.append(_trend(f"The {kind} accuracy" if len(runs) == 1 else f"{label} accuracy", places))
    if series:
        table = _table(series, "samples", up)
        yield Panel("accuracy", title, " ".join(words), "samples", up, tuple(series), table=table)


def _trend(name: str, places: Sequence[Place], *, is_lost: bool = False) -> str:
    """Describe a curve in words; `is_lost` means that the curve ends because its value becomes NaN or infinite."""
    figures = [y for _, y in filter(None, places)]
    last = numbers.short(figures[-1])
    end = f"is {last} before it becomes NaN or infinite" if is_lost else f"ends at {last}"
    return (
        f"{name} begins at {numbers.short(figures[0])}, {end}, "
        f"and is between {numbers.short(min(figures))} and {numbers.short(max(figures))}."
    )


def _table(series: Sequence[Series], across: str, up: str) -> Table:
    known = [(each.label, x, y) for each in series for x, y in filter(None, each.places)]
    rows = tuple((label, numbers.short(x), numbers.short(y)) for label, x, y in known)
    return limited(("run", across, up), rows)


def limited(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """Return a table of at most MOST_ROWS rows at even distances, including the first and the last row."""
    kept = numbers.spread(rows, MOST_ROWS)
    return Table(header, tuple(kept), len(rows) - len(kept))


def _changes(runs: Sequence[Run], unit: Unit) -> Iterator[tuple[str, float]]:
    """Yield the times of kills and rescales, which explain why a line is interrupted."""
    for run in runs:
        marks = [mark for mark in run.marks if mark.event in ("kill", "rescale") and mark.seconds is not None]
        for mark in numbers.spread(marks, MOST_MARKS):
            yield mark.event, (mark.seconds or 0.0) / unit.size


def _time_unit(runs: Sequence[Run]) -> Unit:
    return numbers.time_unit(max((run.line.seconds or 0.0 for run in runs), default=0.0))


def _events(runs: Sequence[Run]) -> Panel:
    """Plot one row for each kind of event. Within a row, the runs are one above the other."""
    unit, title = _time_unit(runs), "Starts, checkpoints, rescales and kills"
    series, rows, counts = [], list[tuple[str, ...]](), []
    for number, run in enumerate(runs):
        known = [mark for mark in run.marks if mark.seconds is not None]
        shown = numbers.spread_by(known, lambda mark: mark.event, MOST_MARKS // len(runs))
        shift = 0.0 if len(runs) == 1 else 0.5 * (number / (len(runs) - 1) - 0.5)
        places = [((mark.seconds or 0.0) / unit.size, EVENTS.index(mark.event) + shift) for mark in shown]
        if places:
            series.append(Series(run.label, number, tuple(places), is_points=True))
        rows += [(run.label, *_event(mark, unit)) for mark in run.marks]
        counts.append((f"{run.label}: " if len(runs) > 1 else "") + count_words(run))
    if not series:
        return Panel("events", title, "The record has no times of events, so there is nothing to plot.")
    table = limited(("run", "time", "event", "what is known"), rows)
    return Panel("events", title, " ".join(counts), f"time in {unit.name}", "", tuple(series), table=table)


def _event(mark: Mark, unit: Unit) -> tuple[str, str, str]:
    return numbers.duration(mark.seconds, unit), mark.event, mark.words


def count_words(run: Run) -> str:
    """Return in words how often each event happened.

    The counts include events whose lines the record no longer contains.
    """
    counted = [(run.record.count(event), event) for event in EVENTS[:-1]]
    return ", ".join(numbers.counted(number, event) for number, event in counted) + "."


def _scaling(runs: Sequence[Run]) -> Panel:
    """Plot the rate over the number of ranks, and for each model the ideal rate, which is proportional to the ranks."""
    title, series, rows = "Scaling against the ideal", list[Series](), list[tuple[str, ...]]()
    runs = [like_last(run) for run in runs]
    groups: dict[tuple[str, ...], dict[int, float]] = {}
    for number, run in enumerate(runs):
        rates = run.rates()
        if rates:
            series.append(Series(run.label, number, tuple(numbers.spread([*rates.items()], MOST_MARKS // len(runs)))))
            together = groups.setdefault(subject_of(run.last_start), {})
            together.update({ranks: rate for ranks, rate in rates.items() if ranks not in together})
    groups = {subject: rates for subject, rates in groups.items() if len(rates) > 1 and rates[min(rates)] > 0}
    if not groups:
        return Panel("scaling", title, ONE_SIZE if series else "The record has no rate with a number of ranks.")
    guessed = {subject: predicted(_first(runs, subject), rates) for subject, rates in groups.items()}
    series += [*_ideals(groups), *_guesses(guessed)]
    for run in runs:
        subject = subject_of(run.last_start)
        rows += _efficiencies(run, groups.get(subject, {}), guessed.get(subject, {}))
    most = max(rows, key=lambda row: int(row[1].replace(",", "")))
    last = f" {most[0]}: with {most[1]} ranks it is {most[4]} of the ideal."
    words = f"Mean samples per second over the number of ranks.{PREDICTED if any(guessed.values()) else ''}{last}"
    table = limited(("run", "ranks", "samples/s", "ideal samples/s", "of the ideal", "predicted samples/s"), rows)
    return Panel("scaling", title, words, "ranks", "samples/s", tuple(series), table=table)


def _first(runs: Sequence[Run], subject: tuple[str, ...]) -> Run:
    return next(run for run in runs if subject_of(run.last_start) == subject)


def _ideals(groups: Mapping[tuple[str, ...], dict[int, float]]) -> Iterator[Series]:
    for subject, rates in groups.items():
        places = tuple((float(ranks), ideal(rates, ranks)) for ranks in (min(rates), max(rates)))
        yield Series(_of_subject("ideal", subject, len(groups)), -1, places, is_ideal=True)


def _guesses(guessed: Mapping[tuple[str, ...], dict[int, float]]) -> Iterator[Series]:
    for subject, rates in guessed.items():
        places = [(float(ranks), rate) for ranks, rate in rates.items()]
        if places:
            kept = numbers.spread(places, MOST_MARKS // len(guessed))
            yield Series(_of_subject("predicted", subject, len(guessed)), -1, tuple(kept), is_points=True)


def _of_subject(name: str, subject: tuple[str, ...], subjects: int) -> str:
    return name if subjects == 1 else f"{name} {' '.join(subject[:1])}"


def _efficiencies(run: Run, together: dict[int, float], guessed: Mapping[int, float]) -> Iterator[tuple[str, ...]]:
    for ranks, rate in run.rates().items() if together else ():
        best = ideal(together, ranks)
        share, other = f"{100 * rate / best:.0f} %", numbers.short(guessed[ranks]) if ranks in guessed else ""
        yield run.label, f"{ranks:,}", numbers.short(rate), numbers.short(best), share, other


def _step(runs: Sequence[Run]) -> Panel:
    """Plot the parts of an average step. There is one bar for each run and number of ranks."""
    title = "Where the time of a step goes"
    found = [(run, ranks, times) for run in runs for ranks, times in run.times_by_ranks().items()]
    if not any(times.seconds for _, _, times in found):
        return Panel("step", title, "The record has no sums of seconds, so the parts of a step are not known.")
    names = _names_of_parts(times for _, _, times in found)
    bars, rows = list[Bar](), list[tuple[str, ...]]()
    for run, ranks, times in found:
        size = numbers.counted(ranks, "rank") if ranks else "all"
        parts = tuple(part and part / times.steps for part in map(_parts(times).get, names))
        bars.append(Bar(size if len(runs) == 1 else f"{run.label}, {size}", parts))
    shown = numbers.spread(bars, 12)
    largest = max(shown, key=lambda bar: bar.length)
    unit = numbers.time_unit(largest.length)
    for (run, ranks, _), bar in zip(found, bars, strict=True):
        lengths = (numbers.duration(part, unit) for part in bar.parts)
        rows.append((run.label, f"{ranks or '?'}", *lengths, *_shares(bar)))
    scaled = tuple(Bar(bar.label, tuple(part and part / unit.size for part in bar.parts)) for bar in shown)
    words = f"{largest.label}: a step takes {numbers.duration(largest.length)}, {_largest_share(largest, names)}."
    words += _words_of_communication(names)
    header = ("run", "ranks", *names, *(f"share of {name}" for name in names))
    across, table = f"{unit.name} of a mean step", limited(header, rows)
    return Panel("step", title, words, across, "", bars=scaled, parts=names, table=table)


def _parts(times: Times) -> dict[str, float | None]:
    """Return the seconds of each part in PARTS, or None for a part whose time is not known separately."""
    waited = times.communicating
    return {
        "input": times.waiting_for_input,
        "communication": waited,
        "computation": None if waited is None else times.computing - waited,
        TOGETHER: times.computing if waited is None else None,
        "checkpoints": times.saving,
    }


def _names_of_parts(found: Iterable[Times]) -> tuple[str, ...]:
    """Return the parts of a step that are known for at least one of these times, in the order of PARTS."""
    known = {name for times in found for name, part in _parts(times).items() if part is not None}
    return tuple(name for name in PARTS if name in known)


def _shares(bar: Bar) -> Iterator[str]:
    for part in bar.parts:
        yield f"{100 * part / bar.length:.1f} %" if part is not None and bar.length else ""


def _largest_share(bar: Bar, names: Sequence[str]) -> str:
    part, name = max((part or 0.0, name) for part, name in zip(bar.parts, names, strict=True))
    return f"{100 * part / bar.length:.0f} % of it {name}"


def _words_of_communication(names: Sequence[str]) -> str:
    if TOGETHER not in names:
        return " Communication is the wait of rank 0 for the averages of the gradients after its own were computed."
    whose = "Some bars do" if "communication" in names else "The record does"
    return f" {whose} not tell communication from computation, as that wait was not measured."


def _all_reduce(runs: Sequence[Run]) -> Panel:
    """Plot 2(N-1)K/N over N, and one point for each number of ranks in the runs."""
    title, rows = "All-reduce bytes per step and rank", list[tuple[str, ...]]()
    found = {number: figures for number, run in enumerate(runs) if (figures := all_reduces(run))}
    if not found:
        words = "The record has no bytes of parameters, or the run uses parameter servers instead of all-reduce."
        return Panel("all-reduce", title, words)
    # Whatever the number of ranks is, a rank sends less than 2K bytes per step, where K is the size of the gradients.
    unit = numbers.byte_unit(max(2 * figures[0].size for figures in found.values()))
    most = max((each for figures in found.values() for each in figures), key=lambda each: each.ranks)
    of_rate = numbers.byte_unit(max(each.bytes_per_second or 0 for figures in found.values() for each in figures))
    series = []
    for number, figures in found.items():
        label = runs[number].label
        places = [(float(each.ranks), each.bytes_per_step / unit.size) for each in figures]
        kept = numbers.spread(places, MOST_MARKS // len(runs))
        series.append(Series(label, number, tuple(kept), is_points=True))
        for each in figures:
            sent = (numbers.amount(number, unit) for number in (each.size, each.bytes_per_step))
            per_second = "" if each.bytes_per_second is None else f"{numbers.amount(each.bytes_per_second, of_rate)}/s"
            rows.append((label, f"{each.ranks:,}", *sent, per_second))
    for size in sorted({figures[0].size for figures in found.values()}):
        curve = tuple((n, all_reduce_bytes(size, n) / unit.size) for n in numbers.steps_to(2 * most.ranks))
        series.append(Series(f"2(N-1)K/N, K = {numbers.amount(size)}", -1, curve, is_ideal=True))
    header = ("run", "ranks N", "parameters K", "2(N-1)K/N", "over the mean step")
    words = (
        f"Computed by 2(N-1)K/N for K = {numbers.amount(most.size)} of parameters: with "
        f"{numbers.counted(most.ranks, 'rank')} each rank sends {numbers.amount(most.bytes_per_step)} per step, and "
        "receives as much. The record has no measured bytes."
    )
    table = limited(header, rows)
    return Panel("all-reduce", title, words, "ranks N", f"{unit.name} per step", tuple(series), table=table)
