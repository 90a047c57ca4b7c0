"""Take a run's figures from its record, and how well the ranks are used compared with one rank alone."""

from __future__ import annotations

from collections.abc import Iterator

from distrain.progress.start import one_line
from distrain.record.read import Line, Record
from distrain.status.figures import MOST_SECONDS, Figures

FAILED = "failed"


def figures_of(record: Record, now: float) -> Figures:
    """Return the figures of the record's last lines; `now` is in seconds since 1970."""
    step, start, saved = (record.last(event) or Line(event=event) for event in ("step", "start", "checkpoint"))
    return Figures(
        step=step.step,
        steps=start.steps,
        step_age_seconds=_age(step, now),
        epoch=step.epoch,
        epochs=start.epochs,
        images_per_second=step.images_per_second,
        images_per_second_mean=step.images_per_second_mean,
        loss=step.loss,
        checkpoint=saved.checkpoint,
        checkpoint_step=saved.step,
        checkpoint_age_seconds=_age(saved, now),
        restarts=max(0, record.count("start") - 1),
        rescales=record.count("rescale"),
    )


def why_failed(record: Record) -> str:
    """Return the reason of the run's end, an empty text if it has not failed."""
    end = record.last("end")
    return one_line(end.reason).removeprefix("distrain: ") if end and end.cause == FAILED else ""


def efficiency(record: Record) -> float | None:
    """Return the present speed as a share of that of as many single ranks; None if no single rank was ever measured."""
    rates: dict[int, float] = {}
    size = None
    for size, rate in _rates(record):
        rates[size] = rate
    if size is None or size == 1 or not rates.get(1):
        return None
    return rates[size] / (size * rates[1])


def _rates(record: Record) -> Iterator[tuple[int, float]]:
    """Yield the number of ranks, and their rate since their start, of each step line."""
    size = None
    for line in record.lines:
        if line.event == "start":
            size = line.world_size
        elif line.event == "step" and size and line.images_per_second_mean:
            yield size, line.images_per_second_mean


def _age(line: Line, now: float) -> int | None:
    if line.unix_seconds is None or not abs(now - line.unix_seconds) <= MOST_SECONDS:
        return None
    return max(0, round(now - line.unix_seconds))
