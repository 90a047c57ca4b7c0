"""Follow runs until a goal is reached, or for as long as the user looks on."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, GoneError, UnreachableError
from distrain.status.phase import Word
from distrain.status.read import read_runs
from distrain.status.run import Observed, Run
from distrain.status.sources import SILENCE_SECONDS, Watches

# Logs, events and queues are read again after each change of a job or pod, but not sooner than after the first of these
# numbers of seconds, and without a change after the second.
SOONEST, LATEST = 1.0, 3.0


def followed(cluster: Cluster, source: Watches, timeout: float = math.inf) -> Iterator[list[Observed]]:
    """Yield the runs after each change, until the timeout in seconds; pass over a short silence of the API server."""
    heard = time.monotonic()
    deadline = heard + timeout
    while True:
        source.changed.clear()
        try:
            found = read_runs(cluster, source)
        except UnreachableError as error:
            is_sure = isinstance(error, ForbiddenError) or not source.has_answered
            if is_sure or time.monotonic() - heard > SILENCE_SECONDS:
                raise
        else:
            heard = time.monotonic()
            yield found
        if (left := deadline - time.monotonic()) <= 0:
            return
        time.sleep(min(left, SOONEST))
        source.changed.wait(min(max(left - SOONEST, 0), LATEST - SOONEST))


def has_reached(run: Run, goal: str) -> bool:
    """Tell whether a run has reached the goal of --for; raise GoneError if it has ended and never will."""
    word, step = run.phase.word, run.figures.step
    if goal == Word.SUCCEEDED.value:
        return word == Word.SUCCEEDED
    if goal == Word.RUNNING.value:
        return word in (Word.RUNNING, Word.SUCCEEDED) or (word == Word.RESCALING and step is not None)
    wanted = int(goal.partition("=")[2])
    if step is not None and step >= wanted:
        return True
    if word == Word.SUCCEEDED and step is None:
        words = f"has succeeded, and its last step is not known, so nobody can tell whether it reached --for {goal}"
        raise GoneError(f"{run.name}: {words}; name its record with --record, or wait for Succeeded")
    if word == Word.SUCCEEDED:
        raise GoneError(f"{run.name}: has succeeded with step {step}, before --for {goal}; name a step that it reaches")
    return False
