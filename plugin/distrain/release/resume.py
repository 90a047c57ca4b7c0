"""Decide whether an upgrade's new job can resume from the old job's checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Values = Mapping[str, Any]

# The trainer resumes only from checkpoints that were saved with the same settings for these values.
SUBJECT = ("framework", "strategy", "trainer.model", "trainer.optimizer", "trainer.seed")


def obstacle(old: Values, new: Values) -> str:
    """Return why the new job does not find the checkpoints of the old job, or an empty string if it finds them."""
    uri = _at(old, "checkpoint.uri")
    if _at(new, "checkpoint.resume") == "never":
        return "checkpoint.resume is never"
    if old.get("command"):
        return "the trainer does not read what your command has saved"
    if not uri:
        return "no checkpoint outlives its pods"
    places = ("volumes", "volumeMounts") if str(uri).startswith("/") else ("s3.endpoint",)
    moved = [path for path in ("checkpoint.uri", *places) if (_at(old, path) or None) != (_at(new, path) or None)]
    return f"{moved[0]} changes" if moved else ""


def differences(old: Values, new: Values) -> Iterator[str]:
    """Yield the changes of values that make the old checkpoints unusable, such as "trainer.seed: 1 -> 2"."""
    for path in SUBJECT:
        before, after = _at(old, path), _at(new, path)
        # The values of an older chart may lack this value.
        if before is not None and before != after:
            yield f"{path}: {before} -> {after}"


def _at(values: Values, path: str) -> Any:
    found: Any = values
    for key in path.split("."):
        found = (found or {}).get(key)
    return found
