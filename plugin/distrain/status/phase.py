"""Decide the phase of a run. A pure function over a few facts, which `facts.py` reads from the run's objects.

The rules are tried one after another, and the first that holds decides. So a run has exactly one phase.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Word(str, Enum):
    """The phases, from a run's creation to its end."""

    QUEUED = "Queued"
    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESCALING = "Rescaling"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    def __str__(self) -> str:
        return self.value


class Facts(Struct, frozen=True):
    """The facts that decide the phase. Workers include a PyTorchJob's Master.

    `end` is Succeeded, Failed, or empty. `queue` names the queue that holds the run back, or is empty. `wanted` is the
    number of workers in the job's spec, `made` the number of their pods. `trained` is the number of workers at the last
    step, None before the first step of this start. `replaced` is the number of workers of an older job that the run
    replaces, None without one. `waits` tells that a pod is missing, has no node, or cannot be started; `all_run` that
    every pod runs. `tells_steps` is False for a program that writes no JSON lines.
    """

    wanted: int
    made: int
    end: str = ""
    queue: str = ""
    is_suspended: bool = False
    trained: int | None = None
    replaced: int | None = None
    waits: bool = False
    all_run: bool = False
    tells_steps: bool = True


class Phase(Struct, frozen=True):
    """The phase; `before` and `after` are the numbers of workers of a run that is Rescaling."""

    word: Word
    before: int | None = None
    after: int | None = None

    def __str__(self) -> str:
        return f"{self.word} {self.before}-{self.after}" if self.word == Word.RESCALING else self.word.value


def decide(facts: Facts) -> Phase:
    """Return the phase of a run."""
    if facts.end:
        return Phase(Word(facts.end))
    if facts.queue:
        return Phase(Word.QUEUED)
    if facts.is_suspended:
        return Phase(Word.SUSPENDED)
    if (size := _other_size(facts)) is not None:
        return Phase(Word.RESCALING, size, facts.wanted)
    if facts.trained is not None or (facts.all_run and not facts.tells_steps):
        return Phase(Word.RUNNING)
    return Phase(Word.PENDING if facts.waits else Word.STARTING)


def _other_size(facts: Facts) -> int | None:
    """Return the number of workers before the current rescale, None if there is no rescale."""
    # A program without JSON lines shows a rescale only by surplus pods, so only a rescale to fewer workers is seen.
    surplus = facts.made if facts.made > facts.wanted else None
    sizes = (facts.replaced, facts.trained, surplus)
    return next((size for size in sizes if size is not None and size != facts.wanted), None)
