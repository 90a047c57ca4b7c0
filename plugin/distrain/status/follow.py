"""Follow runs until a goal is reached, or until the user stops watching."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, GoneError, UnreachableError
from distrain.status.phase import Word
from distrain.status.read import read_runs
from distrain.status.run import Observed, Run
from distrain.status.sources import SILENCE_SECONDS, Watches

# After a change of a job or pod, logs, events and queues are read again, but at most once in SOONEST seconds. Without a
# change, they are read again after LATEST seconds.
SOONEST, LATEST = 1.0, 3.0
# If the API server is silent for less than WORTH_TELLING seconds, the user is not told.
WORTH_TELLING = 2.0


class Silence:
    """Tells the user once that the API server does not answer, and once that it answers again."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._since, self._is_told = 0.0, False
        self.error: UnreachableError | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since if self.error else 0.0

    def begin(self, error: UnreachableError) -> None:
        """Record that the API server does not answer."""
        self._since = self._since if self.error else time.monotonic()
        self.error = error
        if self.seconds >= WORTH_TELLING and not self._is_told:
            self._tell(f"{error.messages[0]}; trying on")
            self._is_told = True

    def end(self) -> None:
        if self._is_told:
            self._tell("the cluster answers again")
        self.error, self._is_told = None, False


def followed(
    cluster: Cluster, source: Watches, silence: Silence, deadline: float = math.inf
) -> Iterator[list[Observed]]:
    """Yield the runs after each change until the deadline.

    Ignore it if the API server does not answer for a short time.

    The deadline is a time on the monotonic clock.
    """
    while True:
        source.changed.clear()
        try:
            found = read_runs(cluster, source)
        except UnreachableError as error:
            silence.begin(error)
            is_sure = isinstance(error, ForbiddenError) or not source.has_answered
            if is_sure or silence.seconds > SILENCE_SECONDS:
                raise
        else:
            silence.end()
            yield found
        if (left := deadline - time.monotonic()) <= 0:
            return
        time.sleep(min(left, SOONEST))
        source.changed.wait(min(max(left - SOONEST, 0), LATEST - SOONEST))


def has_reached(run: Run, goal: str) -> bool:
    """Tell whether a run has reached the goal of --for.

    Raise GoneError if it has ended and will never reach the goal.
    """
    word, step = run.phase.word, run.figures.step
    if goal == Word.SUCCEEDED.value:
        return word == Word.SUCCEEDED
    if goal == Word.RUNNING.value:
        return word in (Word.RUNNING, Word.SUCCEEDED) or (word == Word.RESCALING and step is not None)
    wanted = int(goal.partition("=")[2])
    if step is not None and step >= wanted:
        return True
    if word == Word.SUCCEEDED and step is None:
        words = f"the run has succeeded, but its last step is unknown, so perhaps it did not reach --for {goal}"
        raise GoneError(f"{run.name}: {words}; give its record with --record, or wait with --for Succeeded")
    if word == Word.SUCCEEDED:
        raise GoneError(
            f"{run.name}: the run has already succeeded, at step {step}, and did not reach --for {goal}; "
            "give a step that the run reaches"
        )
    return False
