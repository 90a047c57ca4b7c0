"""Tell from the pods and logs of a job whether it trains: by its JSON lines, or because its ranks keep running."""

from __future__ import annotations

import re
from collections.abc import Hashable

from msgspec import Struct

from distrain.progress.newest import newest_log
from distrain.progress.restarts import RESTART, last_line_of
from distrain.progress.start import LAUNCHER, JobState, has_started, has_succeeded, role_of, statuses
from distrain.progress.steps import RESUMED
from distrain.workload.manifest import Job

# A program without JSON lines counts as training when all its ranks have run for STEADY_SECONDS.
STEADY_SECONDS = 30.0
NO_STEP = "no step yet"
TRAINED_NOTHING = "its checkpoints show that the run had finished before, so this start trained nothing"
TRAIN_MORE = (
    "to train further, raise trainer.epochs or trainer.steps, or to train from the start, set checkpoint.resume to "
    "never"
)
# The launcher prints this line while it waits for the workers.
WAITING = re.compile(r"^distrain-launch: \d+ s: (waiting for .*)$")


class Steady(Struct):
    """Measures for how long the ranks have been running without a restart."""

    key: Hashable = None
    since: float = 0.0

    def seconds(self, key: Hashable, now: float) -> float:
        """Return for how many seconds the key has been the same."""
        if key != self.key:
            self.key, self.since = key, now
        return now - self.since


class Program(Struct, frozen=True):
    """What the ranks run: the trainer, or the user's `command`.

    After a rescale, `ranks` is the new number of ranks, otherwise None. A log may also have steps from before the
    rescale, so only lines with the new number of ranks count. A line that says no number proves nothing.
    """

    has_trainer: bool = True
    ranks: int | None = None


def reached(found: JobState, job: Job, program: Program, steady: Steady, now: float) -> str:
    """If the job trains or has succeeded, return a text about this. Otherwise return an empty text.

    The trainer always writes JSON lines to its log. If the program is not the trainer, or if the user has no permission
    to read the log, ranks that keep running count as training.
    """
    if has_succeeded(found):
        return "has succeeded already"
    if not has_started(found, job):
        return ""
    texts = [log.text for log in found.logs]
    if newest := newest_log(found.logs):
        index, step = newest
        if program.ranks in (None, step.world_size):
            return f"trains, at step {step.step}{f' of {step.steps}' if step.steps else ''}{_resumed(texts[index])}"
        if step.world_size is not None:
            return ""
    if program.has_trainer and None not in texts:
        return ""
    lasted = steady.seconds(_starts(found), now)
    return f"its ranks have run for {STEADY_SECONDS:g} s" if _ranks_run(found) and lasted >= STEADY_SECONDS else ""


def awaited(found: JobState, job: Job, ranks: int | None = None) -> str:
    """Return what the job waits for when all pods run: for workers, or for the first step.

    The text is added to the progress line. After a rescale, `ranks` is the new number of ranks.
    """
    if not found.logs or not has_started(found, job):
        return ""
    waits = WAITING.match(last_line(found))
    return f"; {waits.group(1)}" if waits else f"; {NO_STEP}{' at the new size' if ranks else ''}"


def waits_for_workers(found: JobState) -> bool:
    """Tell whether a launcher is still waiting for workers that do not answer."""
    return WAITING.match(last_line(found)) is not None


def last_line(found: JobState) -> str:
    """Return the last line of the first log that is not empty."""
    return next(filter(None, (last_line_of(log.text or "") for log in found.logs)), "")


def _resumed(log: str | None) -> str:
    """Say from which step the program has resumed, because a new release may find checkpoints under its name."""
    found = RESUMED.findall(log or "")
    return f", resumed from step {found[-1]}" if found else ""


def _ranks_run(found: JobState) -> bool:
    """Tell whether the launcher has started the ranks. In a job without a launcher, the ranks start with their pods."""
    launchers = [log.text for log in found.logs if role_of(log.pod) == LAUNCHER and log.text is not None]
    # The launcher prints the command of mpirun when all workers answer.
    return all(text and not WAITING.match(last_line_of(text)) for text in launchers)


def _starts(found: JobState) -> Hashable:
    """Return a key that changes when a pod, a container or a program is started again."""
    programs = tuple(tuple(RESTART.findall(log.text or "")[-1:]) for log in found.logs)
    states = [(pod.metadata.uid, status.state) for pod in found.pods for status in statuses(pod)]
    containers = {(uid, state.running.started_at) for uid, state in states if state and state.running}
    return programs, frozenset(containers)
