"""The record of a finished run: results.json beside its model and log."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class LoggedStep:
    """What one log line said."""

    step: int
    images_per_sec: float
    loss: float


@dataclass(frozen=True)
class Results:
    """The figures of a run. The rate is of all ranks together; the accuracy is none where nothing was tested."""

    framework: str
    model: str
    world_size: int
    batch_size: int
    steps: int
    images_per_sec: float
    accuracy: float | None
    history: list[LoggedStep]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"
