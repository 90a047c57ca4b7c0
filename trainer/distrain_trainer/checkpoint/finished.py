"""Decide whether a finished run already has all steps and results that the values now ask for."""

from __future__ import annotations

from collections.abc import Callable

from distrain_trainer import results
from distrain_trainer.checkpoint import files
from distrain_trainer.checkpoint.head import FILE, End, Head
from distrain_trainer.checkpoint.manifest import Subject, difference
from distrain_trainer.config import Config
from distrain_trainer.data.position import Position
from distrain_trainer.errors import CheckpointError
from distrain_trainer.storage import Store

Say = Callable[[str], None]


def what_lacks(config: Config, subject: Subject, store: Store, head: Head, say: Say) -> str:
    """Return a text that names the steps or results that a finished run lacks, or "" if it lacks nothing.

    The values say which steps and results are wanted. Raises CheckpointError if the finished run trained another model
    or used other data, and StorageError if the output cannot be read.
    """
    end = head.end
    if end is None:
        return "its last step is not recorded"
    if end.subject != subject.digest():
        there = files.subject_of(store, head.checkpoint) if head.checkpoint else None
        found = difference(there, subject) if there else None
        raise files.of_another(store, head.checkpoint or FILE, found or "the run finished with other values")
    if _steps_left(config, subject, end) > 0:
        return f"it ended at step {end.step}, and {_length_of(config)}"
    _require_same_data(config, end)
    if config.output and not results.is_outcome_of(config.output, name_of_weights(config, head)):
        return f"output.uri: {config.output} does not hold its model"
    say_if_longer(config, subject, end, say)
    return ""


def name_of_weights(config: Config, head: Head) -> str:
    """Return the text that identifies a run and its generation in results.json: the URI, "#" and the generation."""
    return f"{config.checkpoint}#{head.generation}"


def say_if_longer(config: Config, subject: Subject, at: Position | End, say: Say) -> None:
    """Log a line if the run has made more steps than the values ask for."""
    if _steps_left(config, subject, at) < 0:
        say(
            f"trains no further: {_length_of(config)}, but step {at.step} ({at.samples} samples) is already done; the "
            f"model stays as it was after step {at.step}"
        )


def _require_same_data(config: Config, end: End) -> None:
    if end.data is not None and end.data.rstrip("/") != config.data.rstrip("/"):
        raise CheckpointError(
            f"data.uri: the run at {config.checkpoint} was trained on {end.data}, but data.uri is now {config.data}; "
            "set checkpoint.resume to never to train from the start, raise trainer.epochs or trainer.steps to continue,"
            f" or set data.uri back to {end.data}"
        )


def _steps_left(config: Config, subject: Subject, at: Position | End) -> int:
    """Return how many steps the run still has to make, or how many samples if trainer.epochs is set.

    The result is negative if the run has made more steps (or seen more samples) than the values ask for.
    """
    if config.steps is not None:
        return config.steps - at.step
    assert config.epochs is not None
    assert subject.epoch_samples is not None
    return config.epochs * subject.epoch_samples - at.samples


def _length_of(config: Config) -> str:
    return f"trainer.epochs is {config.epochs}" if config.steps is None else f"trainer.steps is {config.steps}"
