"""What a finished run leaves: the trained model, results.json and log.txt."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from distrain_trainer.log import Log
from distrain_trainer.storage import open_store


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


def write_outcome(uri: str, results: Results, log: Log, *, model: str, save: Callable[[Path], None]) -> None:
    """Write a run's outcome below `uri`; `save` writes the model to a local file of the name `model`.

    Raises StorageError when it cannot be written.
    """
    store = open_store(uri, value="output.uri")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / model
        save(path)
        store.write(model, path.read_bytes())
    store.write("results.json", results.to_json().encode())
    log.print(f"{model}, results.json and log.txt are in {uri}")
    store.write("log.txt", log.text().encode())
