"""Read and change HEAD.

Each run has a file named HEAD. HEAD contains the name of the job that holds the run, and the name of the run's newest
checkpoint.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from distrain_trainer.checkpoint.files import place
from distrain_trainer.checkpoint.manifest import Subject
from distrain_trainer.data.position import Position
from distrain_trainer.errors import StorageError
from distrain_trainer.storage import Store

FILE = "HEAD"
TRAINING, STOPPED, FINISHED = "training", "stopped", "finished"
SECONDS_BETWEEN_BEATS = 10.0
# Seconds without a new heartbeat after which the holder of HEAD counts as dead.
SECONDS_OF_SILENCE = 30.0
RETIRED_KEPT = 64


@dataclass(frozen=True)
class Holder:
    """A job that holds a run, or that asks to take the run over: the name of the job resource, and the UIDs of its
    pods.
    """

    job: str
    pods: tuple[str, ...] = ()

    def shares_pods(self, pods: tuple[str, ...]) -> bool:
        return bool({*self.pods} & {*pods})


@dataclass(frozen=True)
class End:
    """The point at which a run finished: the last step, the number of samples seen, and data.uri.

    `subject` is a hash of what the run trained: framework, model, optimizer, seed, and size of the data (see Subject).

    `data` is None if an earlier version of the trainer finished the run, because it did not record data.uri.
    """

    step: int
    samples: int
    subject: str
    data: str | None = None

    @classmethod
    def of(cls, position: Position, subject: Subject, data: str) -> End:
        return cls(position.step, position.samples, subject.digest(), data)

    @classmethod
    def from_json(cls, told: dict[str, Any] | None) -> End | None:
        return None if told is None else cls(told["step"], told["samples"], told["subject"], told.get("data"))


@dataclass(frozen=True)
class Head:
    """The content of a run's HEAD.

    `heartbeat` is in Unix seconds. `since` is the generation that last started the training from step 0. `successor` is
    the job that asks to take the run over. `retired` are the UIDs of pods that may no longer take the run, because
    another job has replaced their job. `end` is the point at which the run last finished; it is valid only in the state
    FINISHED.
    """

    generation: int
    job: str
    pods: tuple[str, ...]
    heartbeat: float
    checkpoint: str | None = None
    state: str = TRAINING
    successor: Holder | None = None
    retired: tuple[str, ...] = ()
    since: int = 1
    end: End | None = None

    @classmethod
    def first(cls, holder: Holder) -> Head:
        return cls(1, holder.job, holder.pods, now())

    @property
    def holder(self) -> Holder:
        return Holder(self.job, self.pods)

    def passed_to(self, new: Holder) -> Head:
        """Return the new content of HEAD when `new` takes the run.

        If `new` is another job than the holder so far, the holder's pods may no longer take the run.
        """
        gone = () if new.job == self.job else self.pods
        return replace(
            self,
            generation=self.generation + 1,
            job=new.job,
            pods=new.pods,
            heartbeat=now(),
            state=TRAINING,
            successor=None,
            retired=retired(self.retired, gone, but=new.pods),
        )

    def asked_by(self, new: Holder) -> Head:
        """Return the new content of HEAD when the job `new` asks to take the run over.

        If another job had asked before, that job's pods may no longer take the run.
        """
        overtaken = self.successor.pods if self.successor and self.successor.job != new.job else ()
        return replace(self, successor=new, retired=retired(self.retired, overtaken, but=new.pods))

    def begun_anew(self) -> Head:
        return replace(self, checkpoint=None, since=self.generation)

    def to_json(self) -> bytes:
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Head:
        """Parse a HEAD. Raises ValueError, KeyError, TypeError, AttributeError or RecursionError if HEAD is damaged."""
        told: dict[str, Any] = json.loads(content)
        successor = told["successor"] and Holder(told["successor"]["job"], tuple(told["successor"]["pods"]))
        lists = {"pods": tuple(told["pods"]), "retired": tuple(told["retired"])}
        # Earlier versions of the trainer wrote no `end`.
        told.setdefault("end", None)
        known = {each.name: told[each.name] for each in fields(cls)}
        head = cls(**{**known, **lists, "successor": successor, "end": End.from_json(told["end"])})
        _require_types(head)
        return head


def _require_types(head: Head) -> None:
    """Raise TypeError or ValueError if a field has another type than its annotation says, because JSON may contain any
    value.
    """
    successor, end = head.successor or Holder(""), head.end or End(0, 0, "")
    texts = (head.job, *head.pods, *head.retired, successor.job, *successor.pods)
    numbers = (head.generation, head.since, end.step, end.samples)
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError
    if type(head.heartbeat) not in (int, float):
        raise TypeError
    if head.checkpoint is not None:
        place(head.checkpoint)


def retired(before: tuple[str, ...], more: tuple[str, ...], *, but: tuple[str, ...]) -> tuple[str, ...]:
    """Add pods to the list of pods that may no longer take the run. Return the new list of UIDs.

    `before` is the old list. The UIDs in `more` are added to it, except for the UIDs that are also in `but`. The new
    list contains only the newest RETIRED_KEPT UIDs. But if `more` alone is longer, no UID of `more` is dropped.
    """
    pods = [*(pod for pod in before if pod not in more), *(pod for pod in more if pod not in but)]
    return tuple(pods[-max(RETIRED_KEPT, len(more)) :])


def now() -> float:
    return round(time.time(), 3)


def read(store: Store) -> tuple[Head, str] | None:
    """Return HEAD and its tag, or None if the run has no HEAD. Raises StorageError if HEAD is damaged or unreadable."""
    held = store.read_tagged(FILE)
    if held is None:
        return None
    try:
        return Head.from_json(held[0]), held[1]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StorageError(
            f"{store.value}: {store.path(FILE)} is damaged; remove it to go on from the newest checkpoint "
            f"there, or correct {store.value}"
        ) from None
