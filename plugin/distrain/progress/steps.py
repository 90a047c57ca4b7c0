"""Read the progress of a training from the log of its first rank."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from distrain.kube.decoders import decoder

# The trainer writes the step line of tf_cnn_benchmarks for every framework.
STEP = re.compile(r"^(\d{1,15})\timages/sec: ", re.MULTILINE)
SAVED = re.compile(r"^(?:checkpoint: saved (\S+) at|resumed from (\S+):) step (\d{1,15})(?!\d)", re.MULTILINE)
RESUMED = re.compile(r"^resumed from \S+: step (\d{1,15})(?!\d)", re.MULTILINE)
# The trainer's only line if the run had finished before this start.
FINISHED = re.compile(
    r"^(?:.*<std\w+>: ?)?finished: .* shows that this run has finished; nothing is left to do\r?$", re.MULTILINE
)
# The JSON line that accompanies each step line; see docs/training.md.
PROGRESS = re.compile(r"^distrain-progress: (\{.*\})\r?$", re.MULTILINE)
# distrain-launch logs its command before it starts the ranks. `-np` is their number.
STARTED = re.compile(r"^distrain-launch: [^:]* workers answer: \S+ -np (?P<ranks>\d{1,9}) .*$", re.MULTILINE)
PROGRESS_OR_START = re.compile(f"{PROGRESS.pattern}|{STARTED.pattern}", re.MULTILINE)
# Python's json module writes these words for numbers that are not finite, although JSON has no such words. The pattern
# also matches numbers that are too large for a float, such as 5e400.
NOT_FINITE = re.compile(
    r"(?<=[:\s])(?:NaN|-?Infinity|-?\d+(?:\.\d+)?[eE]\+?\d{3,}|-?\d{300,}(?:\.\d+)?(?:[eE]\+?\d+)?)(?=\s*[,}])"
)
# A larger number must come from an error of the program, and counts as unknown.
LARGEST = 10**15

T = TypeVar("T", bound=Struct)


class Progress(Struct, frozen=True):
    """The fields of a JSON line that the plugin reads."""

    step: int
    steps: int | None = None
    epoch: float | None = None
    epochs: float | None = None
    images_per_second: float | None = None
    images_per_second_mean: float | None = None
    loss: float | None = None
    eta_seconds: float | None = None
    checkpoint: str | None = None
    samples: int | None = None
    checkpoint_samples: int | None = None
    world_size: int | None = None
    unix_seconds: float | None = None


class Checkpoint(Struct, frozen=True):
    """The last checkpoint that a log mentions, and its step. A field is None if the log does not say it."""

    name: str | None = None
    step: int | None = None


class Training(Struct, frozen=True):
    """The progress of a training: the steps done, the seconds since its ranks started, and the last saved step.

    A field is None if it is not known. `saved` is also None if no checkpoint was saved.
    """

    steps: int | None
    seconds: int | None
    saved: int | None = None

    @property
    def unsaved(self) -> int:
        """Return the number of steps since the last checkpoint."""
        return max(0, (self.steps or 0) - (self.saved or 0))


def last_steps(logs: Iterable[str]) -> tuple[int | None, int | None]:
    """Return the last step and the last saved step from the first log that contains either."""
    for log in logs:
        made, saved = _last_step(log), last_checkpoint(log).step
        if made is not None or saved is not None:
            return made, saved
    return None, None


def last_checkpoint(log: str, last: Progress | None = None) -> Checkpoint:
    """Return the last checkpoint that a log mentions.

    `last` is the last JSON line of the log, if the line was already parsed.
    """
    if found := SAVED.findall(log):
        saved, resumed, step = found[-1]
        return Checkpoint(saved or resumed, int(step))
    last = last or last_line(log)
    return Checkpoint(last.checkpoint, _saved_by_progress(last)) if last else Checkpoint()


def lines_of(log: str) -> list[Progress]:
    """Return those JSON lines of a log that can be read. A program that is killed may write only half of a line.

    If a line does not say the number of ranks, take the number with which the launcher has started them.
    """
    ranks, found = None, []
    for each in PROGRESS_OR_START.finditer(log):
        if each["ranks"]:
            ranks = int(each["ranks"])
        elif line := _progress(each[1]):
            found.append(line if line.world_size else msgspec.structs.replace(line, world_size=ranks))
    return found


def last_line(log: str) -> Progress | None:
    """Return the last JSON line of a log that can be read."""
    return next(reversed(lines_of(log)), None)


def sane(line: T) -> T:
    """Return a line of a log or a record without its impossible numbers: NaN, infinite, or larger than LARGEST."""
    odd = {name: None for name in line.__struct_fields__ if is_odd(getattr(line, name))}
    return msgspec.structs.replace(line, **odd) if odd else line


def is_odd(value: Any) -> bool:
    return isinstance(value, int | float) and not abs(value) <= LARGEST  # NaN is not smaller.


def trained_nothing(logs: Iterable[str]) -> bool:
    """Tell whether a trainer found that the run had finished before, and these logs have no step."""
    texts = list(logs)
    return any(map(FINISHED.search, texts)) and not any(map(PROGRESS.search, texts))


def after_last_step(log: str) -> str:
    """Return the part of a log that follows its last JSON line."""
    found = list(PROGRESS.finditer(log))
    return log[found[-1].end() :] if found else log


def _progress(line: str) -> Progress | None:
    try:
        found = decoder(Progress, strict=False).decode(NOT_FINITE.sub("null", line))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return None if is_odd(found.step) else sane(found)


def _saved_by_progress(progress: Progress) -> int | None:
    """Convert the sample count of the last checkpoint in the JSON line to a step.

    All steps are assumed to have the same number of samples.
    """
    if not (progress.samples and progress.checkpoint_samples):
        return None
    return progress.step * progress.checkpoint_samples // progress.samples


def _last_step(log: str) -> int | None:
    found = STEP.findall(log)
    return int(found[-1]) if found else None


def seconds_since(started_at: str | None, now: datetime) -> int | None:
    """Return the seconds since an RFC 3339 timestamp, or None if there is no timestamp."""
    started = seconds_of(started_at)
    return None if started is None else max(0, round(now.timestamp() - started))


def seconds_of(time: str | None) -> float | None:
    """Return an RFC 3339 timestamp in seconds since 1970, or None if it is missing or unreadable."""
    try:
        return datetime.fromisoformat((time or "").replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def duration(seconds: int) -> str:
    """Return a text such as "45 s", "12 min", "3 h 5 min" or "4 d 2 h"."""
    if seconds < 120:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
