"""Read a run's figures from the log of its first rank: steps, speed, loss, checkpoint, restarts.

Each line of such a log begins with the time at which the node's container runtime received it. The trainer's own times
come from the same node's clock. The clock of the user's machine may differ from it, so no age is less than 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct

from distrain import kube
from distrain.progress.logs import LINES, PHASES
from distrain.progress.restarts import RESTART
from distrain.progress.start import Log, statuses
from distrain.progress.steps import PROGRESS, SAVED, Progress, newest, newest_log, saved_step

# distrain-launch's line after a change of the number of workers.
RESCALED = re.compile(r"^distrain-launch: \d+ -> \d+ workers after (?!a failure)", re.MULTILINE)
STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d) ?", re.MULTILINE)
# An older step line is told with its age: the trainer writes such lines every few seconds to minutes.
LONG_AGO = 120
# A rate is no longer the present one, and the rest of the time unknown, if so many step lines should have followed.
INTERVALS = 3
# Larger numbers come from a program's mistake, and are shown as unknown.
MOST_SECONDS = 10 * 365 * 86400


class Figures(Struct, frozen=True):
    """A run's figures. None stands for what is not known, such as a loss that is not a number."""

    step: int | None = None
    steps: int | None = None
    step_age_seconds: int | None = None
    epoch: float | None = None
    epochs: float | None = None
    images_per_second: float | None = None
    images_per_second_mean: float | None = None
    loss: float | None = None
    eta_seconds: int | None = None
    checkpoint: str | None = None
    checkpoint_step: int | None = None
    checkpoint_age_seconds: int | None = None
    restarts: int | None = None
    rescales: int | None = None


class TimedLog(Struct, frozen=True):
    """A pod's log without its times. `times` has the seconds since 1970 of each line, None without a time."""

    text: str
    times: Sequence[float | None]

    def time_at(self, position: int) -> float | None:
        """Return the time of the line at this position of the text."""
        number = self.text.count("\n", 0, position)
        return self.times[number] if number < len(self.times) else None


def timed(text: str) -> TimedLog:
    """Split a log that was read with times."""
    stamps = [STAMP.match(line) for line in text.split("\n")]
    return TimedLog(STAMP.sub("", text), [_seconds(*each.groups()) if each else None for each in stamps])


def figures(logs: Sequence[Log], times: Sequence[TimedLog], pods: Sequence[kube.Pod], now: float) -> Figures:
    """Return the figures of the logs; `times` are the same logs with the times of their lines. `now` is in seconds."""
    texts, counted = [log.text or "" for log in logs], _counted(logs, pods)
    found = newest_log(texts, now)
    if found is None:
        return counted
    index, last = found
    lines = times[index]
    # A node's clock that is ahead of this machine's tells a later time.
    known = [each for each in (now, last.unix_seconds, *lines.times[-2:]) if each is not None]
    return _of(last, texts[index], lines, max(known), counted)


def _counted(logs: Sequence[Log], pods: Sequence[kube.Pod]) -> Figures:
    """Count the restarts and rescales. They are unknown without pods, or if a log of a pod that has run is not whole.

    Only the end of a long log is read, so nobody knows how many of them are told before it.
    """
    texts = [log.text for log in logs]
    may_have_logs = not pods or any(pod.status.phase in PHASES for pod in pods)
    if (may_have_logs and not logs) or any(text is None or text.count("\n") >= LINES for text in texts):
        return Figures()
    told = [text or "" for text in texts]
    ended = sum(each.restart_count for pod in pods for each in statuses(pod))
    return Figures(
        restarts=ended + sum(len(RESTART.findall(text)) for text in told),
        rescales=max(map(_rescales, told), default=0),
    )


def _of(last: Progress, text: str, lines: TimedLog, now: float, counted: Figures) -> Figures:
    age = _age(last.unix_seconds or _last_time(PROGRESS, text, lines), now)
    is_old = age is not None and age >= max(LONG_AGO, INTERVALS * _interval(text))
    eta = None if is_old or last.eta_seconds is None else last.eta_seconds - (age or 0)
    return Figures(
        step=last.step,
        steps=last.steps if last.steps and last.steps > 0 else None,
        step_age_seconds=age,
        epoch=last.epoch,
        epochs=last.epochs,
        images_per_second=None if is_old else last.images_per_second,
        images_per_second_mean=last.images_per_second_mean,
        loss=last.loss,
        eta_seconds=None if eta is None or not abs(eta) <= MOST_SECONDS else max(0, round(eta)),
        checkpoint=last.checkpoint,
        checkpoint_step=saved_step(text),
        checkpoint_age_seconds=_age(_last_time(SAVED, text, lines), now),
        restarts=counted.restarts,
        rescales=counted.rescales,
    )


def _last_time(pattern: re.Pattern[str], text: str, lines: TimedLog) -> float | None:
    found = list(pattern.finditer(text))
    return lines.time_at(found[-1].start()) if found else None


def _age(then: float | None, now: float) -> int | None:
    if then is None or not 0 <= now - then <= MOST_SECONDS:
        return None if then is None or now - then > 0 else 0
    return round(now - then)


def _interval(text: str) -> float:
    """Return the seconds between the last two step lines, 0 if they are unknown."""
    times = [each.unix_seconds for line in PROGRESS_LINE.findall(text)[-2:] if (each := newest([line]))]
    return times[1] - times[0] if len(times) == 2 and times[0] and times[1] else 0


def _rescales(text: str) -> int:
    """Return how often the number of ranks has changed in this part of the log."""
    told = [newest([line]) for line in PROGRESS_LINE.findall(text)]
    sizes = [each.world_size for each in told if each and each.world_size]
    return max(len(RESCALED.findall(text)), sum(one != other for one, other in pairwise(sizes)))


PROGRESS_LINE = re.compile(r"^distrain-progress: .*$", re.MULTILINE)


def _seconds(stamp: str, zone: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp + zone.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
