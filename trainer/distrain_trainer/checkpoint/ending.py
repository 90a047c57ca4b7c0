"""Where a run finished, and whether that is all that the values ask for now."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from distrain_trainer import results
from distrain_trainer.checkpoint.manifest import Subject
from distrain_trainer.config import Config
from distrain_trainer.data.position import Position


@dataclass(frozen=True)
class End:
    """The last step of a finished run, the samples seen by then, and a digest of the Subject."""

    step: int
    samples: int
    subject: str

    @classmethod
    def of(cls, position: Position, subject: Subject) -> End:
        return cls(position.step, position.samples, digest(subject))

    @classmethod
    def from_json(cls, told: dict[str, Any] | None) -> End | None:
        return None if told is None else cls(told["step"], told["samples"], told["subject"])


def digest(subject: Subject) -> str:
    return hashlib.sha256(json.dumps(asdict(subject), sort_keys=True).encode()).hexdigest()


def what_lacks(config: Config, subject: Subject, end: End | None, run: str) -> str:
    """Return what the values ask for and a finished run does not have, "" if it has all. Raises StorageError.

    `run` names the run as its results.json does.
    """
    if end is None:
        return "its last step is not recorded"
    if steps_left(config, subject, step=end.step, samples=end.samples) > 0:
        return f"it ended at step {end.step}, and {length_of(config)}"
    if config.output and not results.is_outcome_of(config.output, run):
        return f"output.uri: {config.output} does not hold its model"
    return ""


def steps_left(config: Config, subject: Subject, *, step: int, samples: int) -> int:
    """Return how many steps or, with trainer.epochs, samples are left; below 0 where more are done than asked for."""
    if config.steps is not None:
        return config.steps - step
    assert config.epochs is not None
    assert subject.epoch_samples is not None
    return config.epochs * subject.epoch_samples - samples


def length_of(config: Config) -> str:
    """Return what the values say of the training's length."""
    return f"trainer.epochs is {config.epochs}" if config.steps is None else f"trainer.steps is {config.steps}"
