"""Compute the figures of a run, such as its rate, from its record.

The functions of this module are pure: they neither read nor draw anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from distrain.derive.formulas import all_reduce_bytes
from distrain.record.read import Line, Record
from distrain.report import texts
from distrain.report.timeline import Timed, TimeLine, time_line


class Point(NamedTuple):
    """A `step` line. A number is None if it is unknown. `has_odd_loss` means that the loss is NaN or infinite."""

    seconds: float | None
    step: int | None
    samples: int | None
    rate: float | None
    loss: float | None
    has_odd_loss: bool = False


class Mark(NamedTuple):
    """An event of the run: its time, and a description."""

    event: str
    seconds: float | None
    words: str


class Times(Struct, frozen=True):
    """The seconds that some steps took together, by what they were spent on.

    `computing` includes the communication. `communicating` is the part of `computing` in which a rank only waits for
    the averages of the gradients, or None if this is unknown.
    """

    steps: int
    waiting_for_input: float
    computing: float
    saving: float
    communicating: float | None = None

    def __add__(self, other: Times) -> Times:
        return Times(
            self.steps + other.steps,
            self.waiting_for_input + other.waiting_for_input,
            self.computing + other.computing,
            self.saving + other.saving,
            _sum(self.communicating, other.communicating),
        )

    @property
    def stepping(self) -> float:
        """Return the seconds from which rates are computed: those of all steps, without the saving of checkpoints."""
        return self.waiting_for_input + self.computing

    @property
    def seconds(self) -> float:
        return self.stepping + self.saving


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


# A larger batch size in a record must be a mistake.
MOST_SAMPLES = 10**9
NO_TIMES = Times(0, 0.0, 0.0, 0.0, communicating=0.0)
# Stands for the missing start of a process if steps come before the first start in the record.
NO_START = Timed(Line(event=""), None)


class Start(NamedTuple):
    """A process of the run, from its start to its end or kill: its number of ranks, and the kept lines of its steps."""

    line: Line
    points: tuple[Point, ...]
    times: Times
    rate: float | None
    # The time from the first line to the last step, measured by the clock of the pod.
    clocked: float = 0.0

    @property
    def ranks(self) -> int | None:
        size = self.line.world_size
        return size if size is not None and size > 0 else None


class Run(NamedTuple):
    """A run with its figures. `label` is its name in plots, and `place` is the location of its record."""

    label: str
    place: str
    record: Record
    line: TimeLine
    starts: tuple[Start, ...]
    marks: tuple[Mark, ...]

    @property
    def points(self) -> list[Point]:
        return [point for start in self.starts for point in start.points]

    @property
    def ends_without_number(self) -> bool:
        """Tell whether the run's last known loss is NaN or infinite.

        Lines without a loss are skipped.
        """
        told = [point for point in self.points if point.loss is not None or point.has_odd_loss]
        return bool(told) and told[-1].has_odd_loss

    @property
    def first_start(self) -> Line | None:
        return next((start.line for start in self.starts if start.line.event == "start"), None)

    @property
    def last_start(self) -> Line | None:
        return next((start.line for start in reversed(self.starts) if start.line.event == "start"), None)

    @property
    def end(self) -> Line | None:
        """Return the line about the end of the run, or None if the last process has written none."""
        turns = [line for line in self.record.lines if line.event in ("start", "end")]
        return turns[-1] if turns and turns[-1].event == "end" else None

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of ranks in the order in which they occurred, without consecutive repetitions."""
        found: list[int] = []
        for start in self.starts:
            if start.ranks and found[-1:] != [start.ranks]:
                found.append(start.ranks)
        return found

    def times_by_ranks(self) -> dict[int | None, Times]:
        """Return the times of the steps (computing, saving and so on) for each number of ranks."""
        found: dict[int | None, Times] = {}
        for start in self.starts:
            if start.times.steps:
                found[start.ranks] = found.get(start.ranks, NO_TIMES) + start.times
        return found

    def rates(self) -> dict[int, float]:
        """Return the mean rate for each number of ranks, weighted by the seconds of the steps."""
        sums: dict[int, tuple[float, float]] = {}
        for start in self.starts:
            if start.ranks and start.rate is not None:
                weight = start.times.stepping or start.clocked or 1.0
                total, weights = sums.get(start.ranks, (0.0, 0.0))
                sums[start.ranks] = (total + start.rate * weight, weights + weight)
        return {ranks: total / weights for ranks, (total, weights) in sorted(sums.items())}

    @property
    def batch(self) -> int | None:
        """Return how many samples a rank processes in a step, or None if the record does not contain the number."""
        line = self.last_start
        found = (line.values or {}).get("batch_size") if line else None
        return found if type(found) is int and 0 < found <= MOST_SAMPLES else None

    @property
    def parameter_bytes(self) -> int | None:
        """Return K, the number of bytes of the trained weights.

        Return None if it is unknown or the run uses parameter servers.
        """
        line = self.last_start
        is_known = line is not None and uses_all_reduce(line) and (line.parameter_bytes or 0) > 0
        return line.parameter_bytes if line and is_known else None


class AllReduce(NamedTuple):
    """The traffic of all-reduce with N ranks: bytes per step and rank, by the formula, and the bandwidth it needs."""

    ranks: int
    size: int
    bytes_per_step: float
    bytes_per_second: float | None


def all_reduces(run: Run) -> list[AllReduce]:
    """Return the all-reduce traffic for each number of ranks in the run. Return an empty list if K is unknown."""
    size, times = run.parameter_bytes, run.times_by_ranks()
    found = []
    for ranks in sorted(set(run.sizes)) if size else ():
        sent, of_size = all_reduce_bytes(size or 0, ranks), times.get(ranks, NO_TIMES)
        per_second = sent * of_size.steps / of_size.computing if of_size.computing > 0 else None
        found.append(AllReduce(ranks, size or 0, sent, per_second))
    return found


def ideal(rates: dict[int, float], ranks: int) -> float:
    """Return the ideal rate for this number of ranks.

    It is proportional to the number of ranks, and equals the measured rate at the smallest number of ranks.
    """
    smallest = min(rates)
    return rates[smallest] * ranks / smallest


def run_of(record: Record, label: str, place: str) -> Run:
    """Return the run with its figures, computed from a record. Texts in the result are short and contain no secrets."""
    record = structs.replace(record, lines=tuple(map(texts.clean, record.lines)))
    line = time_line(record.lines)
    return Run(label, place, record, line, tuple(_starts(line.lines)), tuple(_marks(line.lines)))


def like_last(run: Run) -> Run:
    """Return the run with only those starts of the program that did the same work as the last start.

    Only rates of the same work can be compared.
    """
    work = _work(run.last_start)
    return run._replace(starts=tuple(start for start in run.starts if _work(start.line) == work))


def _work(start: Line | None) -> tuple[str, ...]:
    strategy = ((start.values if start else None) or {}).get("strategy")
    return (*subject_of(start), str(strategy))


def subject_of(start: Line | None) -> tuple[str, ...]:
    """Return the settings, besides the strategy, that two starts must share so that their rates can be compared."""
    values = (start.values if start else None) or {}
    found = (start.model, start.framework) if start else (None, None)
    return tuple(str(each) for each in (*found, values.get("batch_size"), values.get("precision")))


def _starts(lines: Iterable[Timed]) -> Iterator[Start]:
    """Split the lines of a record by process; each process begins with a line `start`.

    The record of a user's program may have steps before its first line `start`, or it may have no such line.
    """
    head, steps = NO_START, list[Timed]()
    for each in lines:
        if each.line.event == "start":
            if head is not NO_START or steps:
                yield _start(head, steps)
            head, steps = each, []
        elif each.line.event == "step":
            steps.append(each)
    if head is not NO_START or steps:
        yield _start(head, steps)


def _start(head: Timed, steps: Sequence[Timed]) -> Start:
    points = tuple(_points(steps))
    # The trainer does not time its first steps, and meanwhile writes 0 as the mean rate. So leave out a mean of 0.
    rates = [line.images_per_second_mean for line, _ in steps if line.images_per_second_mean]
    rate = rates[-1] if rates else _mean([point.rate for point in points if point.rate is not None])
    moments = [seconds for _, seconds in (head, *steps) if seconds is not None]
    clocked = moments[-1] - moments[0] if moments else 0.0
    return Start(head.line, points, _times(head.line, [line for line, _ in steps]), rate, clocked)


def _points(steps: Sequence[Timed]) -> Iterator[Point]:
    """Return the points.

    If a line has no rate, the rate is computed from the number of samples since the previous line.
    """
    before: Timed | None = None
    for each in steps:
        line, seconds = each
        rate = line.images_per_second
        if rate is None and before and seconds is not None and before.seconds is not None and seconds > before.seconds:
            rate = _difference(before.line.samples, line.samples, seconds - before.seconds)
        yield Point(seconds, line.step, line.samples, rate, line.loss, line.has_odd_loss)
        before = each


def _difference(earlier: int | None, later: int | None, seconds: float) -> float | None:
    return (later - earlier) / seconds if earlier is not None and later is not None and later >= earlier else None


def _times(head: Line, steps: Sequence[Line]) -> Times:
    """Return the times of a process (computing, saving and so on) from its start to its last line.

    The lines contain sums since the start, so the result is right even if lines in between are missing. If the `start`
    line has no step, or a user's program has written no `start` line, the sums are counted from the first step line.
    """
    known = [line for line in steps if line.step is not None and line.step_seconds_total is not None]
    if not known:
        return NO_TIMES
    first, last = head if head.step is not None else known[0], known[-1]
    number = (last.step or 0) - (first.step or 0)
    total = _since(first, last, "step_seconds_total") or 0.0
    waited = min(total, max(0.0, _since(first, last, "input_wait_seconds_total") or 0.0))
    saved = max(0.0, _since(first, last, "checkpoint_stall_seconds_total") or 0.0)
    times = Times(number, waited, total - waited, saved, _communicating(head, first, last, total - waited))
    return times if number > 0 and total >= 0 else NO_TIMES


def _since(first: Line, last: Line, name: str) -> float | None:
    """Return how much a sum grows between two lines, or None if the last line lacks the sum.

    If the first line has no such sum, 0 is used: a `start` line has no sums.
    """
    later = getattr(last, name)
    return None if later is None else later - (getattr(first, name) or 0.0)


def _communicating(head: Line, first: Line, last: Line, computing: float) -> float | None:
    """Return how many seconds the ranks waited for the averages of the gradients, or None if this is unknown.

    On a GPU, this wait may overlap with the wait for input, so the result is never larger than the seconds in
    `computing`.
    """
    if head.world_size == 1 and uses_all_reduce(head):
        return 0.0
    waited = _since(first, last, "allreduce_wait_seconds_total")
    return None if waited is None else min(computing, max(0.0, waited))


def uses_all_reduce(start: Line) -> bool:
    """Tell whether the ranks of a start exchange gradients directly, and not through parameter servers."""
    return bool((start.values or {}).get("strategy", "allreduce") == "allreduce")


def _marks(lines: Sequence[Timed]) -> Iterator[Mark]:
    before: float | None = None
    for line, seconds in lines:
        if line.event == "kill":
            # A killed program writes no line. Only its next start writes the line `kill`, so use the time of the line
            # before.
            yield Mark("kill", before, _join(_at(line), "no end was written"))
        elif line.event in WORDS:
            yield Mark(line.event, seconds, WORDS[line.event](line))
        before = seconds


def _at(line: Line) -> str:
    return f"step {line.step:,}" if line.step is not None else ""


def _join(*parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part)


def _start_words(line: Line) -> str:
    ranks = f"{line.world_size:,} ranks" if line.world_size is not None else ""
    return _join(ranks, _at(line), f"from checkpoint {line.checkpoint}" if line.checkpoint else "")


def _checkpoint_words(line: Line) -> str:
    written = f"written in {line.write_seconds:.3g} s" if line.write_seconds is not None else ""
    held = f"held the training up for {line.stall_seconds:.3g} s" if line.stall_seconds is not None else ""
    return _join(line.checkpoint, _at(line), written, held)


def _rescale_words(line: Line) -> str:
    return _join(f"from {line.world_size_before} to {line.world_size} ranks", _at(line))


def _end_words(line: Line) -> str:
    code = f"exit code {line.exit_code}" if line.exit_code is not None else ""
    return _join(line.cause, _at(line), line.reason, code)


WORDS = {
    "start": _start_words,
    "checkpoint": _checkpoint_words,
    "rescale": _rescale_words,
    "end": _end_words,
}


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
