"""Take the figures of a run from its record, and compute its efficiency compared to a single rank."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from distrain.progress.start import one_line, shortened
from distrain.progress.steps import LARGEST, duration
from distrain.record.read import Line, Record
from distrain.status.figures import LONG_AGO, MOST_SECONDS, Figures

# The name of a job of kind Plain ends in this suffix.
PLAIN_SUFFIX = "-plain"
# Maps the cause of the run's end, from the record's last line, to the words for it.
FINISHED, FAILED = "finished", "failed"
ENDS = {FINISHED: "has succeeded", FAILED: "has failed", "stopped": "was stopped"}


def figures_of(record: Record, now: float) -> Figures:
    """Return the figures in the last lines of the record; `now` is in seconds since 1970."""
    _, step = _last_step(record)
    start, saved = _last(record, "start"), _last(record, "checkpoint")
    age = _age(step, now)
    return Figures(
        step=step.step,
        steps=start.steps if start.steps and start.steps > 0 else None,
        step_age_seconds=age,
        epoch=step.epoch,
        epochs=start.epochs,
        images_per_second=None if age is not None and age >= LONG_AGO else step.images_per_second,
        images_per_second_mean=step.images_per_second_mean,
        loss=step.loss,
        checkpoint=saved.checkpoint,
        checkpoint_step=saved.step,
        checkpoint_age_seconds=_age(saved, now),
        **counts_of(record),
    )


def counts_of(record: Record) -> dict[str, int | None]:
    """Return how often the run was restarted and rescaled, as a dict whose keys are names of fields of Figures.

    A start with another number of ranks is a rescale. It is a restart, too, if the process before it was killed.
    """
    starts, rescales, kills = map(record.count, ("start", "rescale", "kill"))
    return {
        "restarts": max(0, starts - 1 - rescales, kills) if max(starts, kills) <= LARGEST else None,
        "rescales": rescales if rescales <= LARGEST else None,
    }


def _last(record: Record, event: str) -> Line:
    return record.last(event) or Line(event=event)


def _last_step(record: Record) -> tuple[Line, Line]:
    """Return two lines of the record: the last `step` line, preceded by the `start` line of its process.

    A checkpoint or the end may be at a later step than the last `step` line, which then gets this step and time. If the
    program was started again later, but from an earlier step, return this later `start` line, and a line for the step
    from which it started, because the run has to repeat the steps after that.
    """
    start = made_by = Line(event="start")
    step = Line(event="step")
    for line in record.lines:
        if line.event == "start":
            start = line
        if line.event == "step":
            made_by, step = start, line
        elif line.event == "start" and _is_before(line, step):
            made_by, step = start, Line(event="step", step=line.step, unix_seconds=line.unix_seconds)
        elif line.event in ("checkpoint", "end") and _is_before(step, line):
            step = replace(step, step=line.step, unix_seconds=line.unix_seconds)
    return made_by, step


def _is_before(one: Line, other: Line) -> bool:
    return one.step is not None and other.step is not None and one.step < other.step


def other_job(record: Record, name: str) -> str:
    """If another job than `name` has written the record, return that job's name, otherwise an empty text.

    Each `start` line in the record has the job's name, which ends in a hash of the job's content. The suffix `-plain`
    in the name of a Plain job is ignored.
    """
    jobs = [line.job.rpartition("-")[0] for line in record.of("start") if line.job]
    is_own = any(job.removesuffix(PLAIN_SUFFIX) == name.removesuffix(PLAIN_SUFFIX) for job in jobs)
    return "" if is_own or not jobs else jobs[-1]


def why_failed(record: Record) -> str:
    """Return why the run has ended. Return an empty text if it has not failed, or if it was started again since."""
    end = _end(record)
    return one_line(end.reason).removeprefix("distrain: ") if end and end.cause == FAILED else ""


def has_finished(record: Record) -> bool:
    end = _end(record)
    return end is not None and end.cause == FINISHED


def end_of(record: Record, now: float) -> str:
    """Return how and when the run has ended, or an empty text if it has not ended."""
    end = _end(record)
    if end is None or end.cause not in ENDS:
        return ""
    age, why = _age(end, now), shortened(why_failed(record).partition("; ")[0])
    step = "" if end.step is None else f" at step {end.step}"
    when = "" if age is None else f", {duration(age)} ago"
    return f"{ENDS[end.cause]}{step}{when}{f' ({why})' if why else ''}"


def _end(record: Record) -> Line | None:
    """Return the line about the end of the run. Return None if it has not ended, or if it was started again since."""
    last = next((line for line in reversed(record.lines) if line.event in ("start", "end")), None)
    return last if last is not None and last.event == "end" else None


def efficiency(record: Record, rate: float | None = None, size: int | None = None) -> float | None:
    """Return the efficiency: the rate of `size` ranks, divided by `size` times the rate of a single rank.

    Without `size`, the rate and the number of ranks come from the last step in the record. Return None if the record
    has no rate of a single rank with its current model and framework.
    """
    start, step = _last_step(record)
    if size is None:
        rate, size = step.images_per_second_mean, start.world_size
    single = next(reversed([*_single_rates(record, _last(record, "start"))]), None)
    if not rate or not single or not size or size == 1:
        return None
    share = rate / size / single
    return share if 0 < share <= LARGEST else None


def _single_rates(record: Record, present: Line) -> Iterator[float]:
    """Yield the mean rate in each step line of a single rank with the current model and framework."""
    start = Line(event="start")
    for line in record.lines:
        if line.event == "start":
            start = line
        is_comparable = start.world_size == 1 and (start.model, start.framework) == (present.model, present.framework)
        if line.event == "step" and line.images_per_second_mean and is_comparable:
            yield line.images_per_second_mean


def _age(line: Line, now: float) -> int | None:
    if line.unix_seconds is None or not abs(now - line.unix_seconds) <= MOST_SECONDS:
        return None
    return max(0, round(now - line.unix_seconds))
