"""Decide the phase of a run.

This is a pure function of a few facts, which `facts.py` reads from the objects of the run.

The rules are tried one after another, and the first rule that applies decides. So a run always has exactly one phase.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Word(str, Enum):
    """The phases of a run, from its creation to its end."""

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
    """The facts that decide the phase of a run. The numbers of workers include the Master of a PyTorchJob.

    `end` is `Succeeded`, `Failed`, or empty. `queue` is the name of the queue that holds the run back, or it is empty.
    `wanted` is the number of workers in the job's spec. `made` is the number of worker pods that exist. `trained` is
    the number of workers at the last step, or None before the first step after this start. `replaced` is the number of
    workers of an old job that this run is replacing, or None if there is none. `waits` means that a pod is missing, has
    no node, or cannot be started. `all_run` means that every pod is running. `tells_steps` is False if the program
    writes no JSON lines.
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
    """The phase of a run. If the phase is `Rescaling`, `before` and `after` are the run's numbers of workers."""

    word: Word
    before: int | None = None
    after: int | None = None

    def __str__(self) -> str:
        return f"{self.word} {self.before}-{self.after}" if self.word == Word.RESCALING else self.word.value


def decide(facts: Facts) -> Phase:
    """Return the phase of a run that has these facts."""
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
    """Return the number of workers before the current rescale, or None if there is no rescale."""
    # If a program logs no JSON lines, only surplus pods show a rescale. So the plugin sees only a rescale to fewer
    # workers.
    surplus = facts.made if facts.made > facts.wanted else None
    sizes = (facts.replaced, facts.trained, surplus)
    return next((size for size in sizes if size is not None and size != facts.wanted), None)
