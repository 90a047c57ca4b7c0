"""Decide whether a finished run already has everything that the values ask for now."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from distrain_trainer import results
from distrain_trainer.checkpoint.manifest import Subject
from distrain_trainer.config import Config
from distrain_trainer.data.position import Position
from distrain_trainer.errors import CheckpointError


@dataclass(frozen=True)
class End:
    """Where a run finished: the last step, the samples seen, the subject's digest, and data.uri.

    `data` is None in runs of earlier trainers, which did not record it.
    """

    step: int
    samples: int
    subject: str
    data: str | None = None

    @classmethod
    def of(cls, position: Position, subject: Subject, data: str) -> End:
        return cls(position.step, position.samples, digest(subject), data)

    @classmethod
    def from_json(cls, told: dict[str, Any] | None) -> End | None:
        return None if told is None else cls(told["step"], told["samples"], told["subject"], told.get("data"))


def digest(subject: Subject) -> str:
    return hashlib.sha256(json.dumps(asdict(subject), sort_keys=True).encode()).hexdigest()


def what_lacks(config: Config, subject: Subject, end: End | None, run: str) -> str:
    """Return what the values ask for and a finished run does not have, or "" if it has everything.

    `run` is the run's name in results.json. Raises StorageError if the output cannot be read.
    """
    if end is None:
        return "its last step is not recorded"
    if steps_left(config, subject, step=end.step, samples=end.samples) > 0:
        return f"it ended at step {end.step}, and {length_of(config)}"
    if config.output and not results.is_outcome_of(config.output, run):
        return f"output.uri: {config.output} does not hold its model"
    return ""


def require_same_data(config: Config, subject: Subject, end: End) -> None:
    """Raise CheckpointError if the run finished on other data than data.uri, and no steps are left to make."""
    if end.data is None or steps_left(config, subject, step=end.step, samples=end.samples) > 0:
        return
    if end.data.rstrip("/") != config.data.rstrip("/"):
        raise CheckpointError(
            f"data.uri: the run at {config.checkpoint} has finished on {end.data}, and data.uri is {config.data} now; "
            "set checkpoint.resume to never to train anew on it, trainer.epochs or trainer.steps to more to train on, "
            f"or data.uri back to {end.data}"
        )


def steps_left(config: Config, subject: Subject, *, step: int, samples: int) -> int:
    """Return how many steps, or with trainer.epochs samples, are left. Negative if more are done than asked for."""
    if config.steps is not None:
        return config.steps - step
    assert config.epochs is not None
    assert subject.epoch_samples is not None
    return config.epochs * subject.epoch_samples - samples


def length_of(config: Config) -> str:
    """Return the value that sets the training's length, as text."""
    return f"trainer.epochs is {config.epochs}" if config.steps is None else f"trainer.steps is {config.steps}"
