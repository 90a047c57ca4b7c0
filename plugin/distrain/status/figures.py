"""Read the figures of a run from the log of its first rank: steps, speed, loss, checkpoint, restarts.

Each line of such a log begins with the time at which the container runtime on the node received the line. The times
that the trainer writes come from the same clock. The clock of the user's machine may differ from the node's clock, so
an age is never less than 0.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct

from distrain import kube
from distrain.progress.logs import LINES, PHASES
from distrain.progress.newest import later
from distrain.progress.restarts import RESTART
from distrain.progress.start import statuses
from distrain.progress.steps import PROGRESS, SAVED, Checkpoint, Progress, after_last_step, last_checkpoint, lines_of

# distrain-launch logs this line after the number of workers has changed.
RESCALED = re.compile(r"^distrain-launch: \d+ -> \d+ workers after (?!a failure)", re.MULTILINE)
# distrain-launch logs this line if it replaces an earlier launcher.
EARLIER = re.compile(r"^distrain-launch: an earlier launcher of this run has counted (\d{1,9}) restarts$", re.MULTILINE)
# The first match in a log shows how the log begins: with a step, with a resumed checkpoint, or with a restart.
BEGINNING = re.compile(
    r"^(?:distrain-progress: |resumed from |distrain-(?:launch|run|torchrun): starting again )", re.MULTILINE
)
STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d) ?", re.MULTILINE)
# A step line that is older than LONG_AGO seconds is shown with its age, because the trainer writes a step line every
# few seconds to minutes.
LONG_AGO = 120
# If the trainer should have written INTERVALS further step lines but has not, the rate is out of date and the remaining
# time unknown.
INTERVALS = 3
# If the ranks of one worker fail, the ranks of all workers fail within TOGETHER_SECONDS.
TOGETHER_SECONDS = 60
# A larger number must come from an error of the program, and is shown as unknown.
MOST_SECONDS = 10 * 365 * 86400


class Figures(Struct, frozen=True):
    """A run's figures. A field is None if it is not known, for example if the loss is not a number."""

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
    """The log of a pod, without the times of its lines.

    For each line, `times` has its time in seconds since 1970, or None if the line has no time.

    `steps` are the JSON lines of the log. The times are parsed only once.
    """

    text: str = ""
    times: Sequence[float | None] = ()
    steps: Sequence[Progress] = ()

    @property
    def last(self) -> Progress | None:
        return self.steps[-1] if self.steps else None

    def time_at(self, position: int) -> float | None:
        """Return the time of the line at this position in the text."""
        number = self.text.count("\n", 0, position)
        return self.times[number] if number < len(self.times) else None

    def position_after(self, seconds: float) -> int:
        """Return the position of the first line that is newer than this time.

        If the lines have no times, return the first position.
        """
        old = sum(1 for _ in itertools.takewhile(lambda then: then is not None and then <= seconds, self.times))
        return sum(len(line) + 1 for line in self.text.split("\n")[:old])


def timed(text: str, behind: float = 0) -> TimedLog:
    """Split a log that was read with times.

    The clock that wrote the times is `behind` seconds behind, so this number is added to each time.
    """
    stamps = [STAMP.match(line) for line in text.split("\n")]
    times = [_seconds(*each.groups()) if each else None for each in stamps]
    plain = STAMP.sub("", text)
    steps = [later(line, behind) for line in lines_of(plain)]
    return TimedLog(plain, [None if each is None else each + behind for each in times], steps)


def figures(logs: Sequence[TimedLog | None], pods: Sequence[kube.Pod], now: float) -> Figures:
    """Return the figures that the logs contain; `now` is in seconds since 1970. The first log has the newest step."""
    counted = _counted(logs, pods)
    log = next(iter(logs), None)
    if log is None or log.last is None:
        return counted
    return _of(log.last, log, clock(log, now), counted)


def clock(log: TimedLog, now: float) -> float:
    """Return the current time: `now`, or the newest time in the log if that is later.

    It is later if the node's clock is ahead of this machine's clock.
    """
    times = (log.last.unix_seconds if log.last else None, *log.times[-2:])
    return max([now, *(each for each in times if each is not None)])


def freshness(log: TimedLog) -> float:
    """Return for how many seconds after the last step line the rate in that line still counts as the current rate."""
    return max(LONG_AGO, INTERVALS * _interval(log))


def last_time(log: TimedLog, pattern: re.Pattern[str] = PROGRESS) -> float | None:
    """Return the time of the last line that matches the pattern; by default, of the last step line."""
    if pattern is PROGRESS and log.last and log.last.unix_seconds:
        return log.last.unix_seconds
    found = list(pattern.finditer(log.text))
    return log.time_at(found[-1].start()) if found else None


def last_step(logs: Sequence[TimedLog | None]) -> float | None:
    """Return the time of the run's last step. The first of `logs` must be the log that contains this step."""
    log = next(iter(logs), None)
    return last_time(log) if log else None


def _counted(logs: Sequence[TimedLog | None], pods: Sequence[kube.Pod]) -> Figures:
    """Count the restarts and rescales of the run.

    Restarts and rescales are unknown if there are no pods, or if the log of a pod that has run is incomplete. Only the
    last part of a long log is read, so earlier restarts and rescales in it are not counted. If a log begins with a line
    about a resumed checkpoint, it lacks the lines of an earlier pod.
    """
    may_have_logs = not pods or any(pod.status.phase in PHASES for pod in pods)
    told = [log for log in logs if log is not None and log.text.count("\n") < LINES]
    if (may_have_logs and not logs) or len(told) < len(logs):
        return Figures()
    ended = sum(each.restart_count for pod in pods for each in statuses(pod))
    if earlier := max(map(_earlier, told), default=0):
        # This launcher has replaced an earlier one, which also counts as a restart. The number of rescales is unknown,
        # because only the earlier launcher's log shows them.
        return Figures(restarts=earlier + max(1, ended) + _restarts(told))
    if not ended and _goes_on(told):
        return Figures()
    return Figures(restarts=ended + _restarts(told), rescales=_rescales_in(told))


def _earlier(log: TimedLog) -> int:
    """Return how many restarts the earlier launchers of the run have counted, or 0 if the log does not say it."""
    return max(map(int, EARLIER.findall(log.text)), default=0)


def _goes_on(logs: Sequence[TimedLog]) -> bool:
    """Tell whether an earlier pod, whose log no longer exists, has made the first steps.

    In this case a log begins with a resumed checkpoint, and no log begins with a step.
    """
    first = [found.group() for log in logs if (found := BEGINNING.search(log.text))]
    return any(line.startswith("resumed") for line in first) and not any(
        line.startswith("distrain-p") for line in first
    )


def _of(last: Progress, log: TimedLog, now: float, counted: Figures) -> Figures:
    age = _age(last_time(log), now)
    is_old = age is not None and age >= freshness(log)
    left = last.eta_seconds
    saved, beyond = last_checkpoint(log.text, last), _saved_beyond(last, log)
    eta = None if is_old or left is None or left < 0 else left - (age or 0)
    return Figures(
        step=beyond[0] if beyond else last.step,
        steps=last.steps if last.steps and last.steps > 0 else None,
        step_age_seconds=_age(beyond[1], now) if beyond else age,
        epoch=last.epoch,
        epochs=last.epochs,
        images_per_second=None if is_old else last.images_per_second,
        images_per_second_mean=last.images_per_second_mean,
        loss=last.loss,
        eta_seconds=None if eta is None or not abs(eta) <= MOST_SECONDS else max(0, round(eta)),
        checkpoint=saved.name,
        checkpoint_step=saved.step,
        checkpoint_age_seconds=_age(_saved_at(saved, log), now),
        restarts=counted.restarts,
        rescales=counted.rescales,
    )


def _saved_beyond(last: Progress, log: TimedLog) -> tuple[int, float | None] | None:
    """Return the step and the time of the last checkpoint if it is at a later step than the last step line.

    The trainer saves a checkpoint at the step at which it stops, but writes no step line there.
    """
    after = after_last_step(log.text)
    found = next((each for each in reversed(list(SAVED.finditer(after))) if each[1]), None)
    if found is None or int(found[3]) <= last.step:
        return None
    return int(found[3]), log.time_at(len(log.text) - len(after) + found.start())


def _saved_at(checkpoint: Checkpoint, log: TimedLog) -> float | None:
    """Return when a checkpoint was saved. Return None if this log does not say it, as after a resume in a new pod."""
    return last_time(log, re.compile(rf"^checkpoint: saved {re.escape(checkpoint.name or '')} at ", re.MULTILINE))


def _age(then: float | None, now: float) -> int | None:
    if then is None or not 0 <= now - then <= MOST_SECONDS:
        return None if then is None or now - then > 0 else 0
    return round(now - then)


def _interval(log: TimedLog) -> float:
    """Return the seconds between the last two step lines, or 0 if they are unknown."""
    times = [each.unix_seconds for each in log.steps[-2:]]
    return times[1] - times[0] if len(times) == 2 and times[0] and times[1] else 0


def _restarts(logs: Sequence[TimedLog]) -> int:
    """Count how often the program was restarted.

    If the ranks of several workers fail together, each worker logs a line.
    """
    told = [
        (log.time_at(found.start()), number) for number, log in enumerate(logs) for found in RESTART.finditer(log.text)
    ]
    dated = sorted((then, number) for then, number in told if then is not None)
    count, since, seen = len(told) - len(dated), float("-inf"), set[int]()
    for then, number in dated:
        if then - since > TOGETHER_SECONDS or number in seen:
            count, since, seen = count + 1, then, set()
        seen.add(number)
    return count


def _rescales_in(logs: Sequence[TimedLog]) -> int | None:
    """Return how often the number of ranks has changed. Return None if a step line of these logs says no number."""
    if any(each.world_size is None for log in logs for each in log.steps):
        return None
    return max(map(_rescales, logs), default=0)


def _rescales(log: TimedLog) -> int:
    """Return how often the number of ranks has changed in this part of the log."""
    sizes = [each.world_size for each in log.steps if each.world_size]
    return max(len(RESCALED.findall(log.text)), sum(one != other for one, other in pairwise(sizes)))


def _seconds(stamp: str, zone: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp + zone.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
