"""What a finished run leaves: the trained model, results.json and log.txt."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from distrain_trainer.log import Log
from distrain_trainer.storage import Patience, open_store

RESULTS = "results.json"
# How many logged steps are kept: each checkpoint's manifest holds them, and a plot shows no more.
LOGGED_KEPT = 1000


@dataclass(frozen=True)
class LoggedStep:
    """What one log line said."""

    step: int
    images_per_sec: float
    loss: float


def add(history: list[LoggedStep], step: LoggedStep) -> None:
    """Append a logged step. Beyond LOGGED_KEPT leave out the one whose neighbors are nearest to each other.

    So the rest stay spread evenly over the run, its first and last step among them. Which they are follows from the
    steps alone, as a resumed run has to keep the same.
    """
    history.append(step)
    while len(history) > 2 * LOGGED_KEPT:  # Earlier trainers kept all.
        del history[1:-1:2]
    while len(history) > LOGGED_KEPT:
        gaps = [after.step - before.step for before, after in zip(history, history[2:], strict=False)]
        del history[1 + gaps.index(min(gaps))]


@dataclass(frozen=True)
class Results:
    """The figures of a run. The rate is of all ranks together, none where this start had no step left to make.

    The accuracy is none where nothing was tested. `run` names the checkpoints' place and generation, `model_file` the
    file beside results.json that holds the model.
    """

    framework: str
    model: str
    world_size: int
    batch_size: int
    steps: int
    images_per_sec: float | None
    accuracy: float | None
    history: list[LoggedStep]
    run: str = ""
    model_file: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def write_outcome(uri: str, results: Results, log: Log, *, model: str, save: Callable[[Path], None]) -> None:
    """Write a run's outcome below `uri`; `save` writes the model to a local file of the name `model`.

    Raises StorageError when it cannot be written.
    """
    # What the start has written shows that the keys may: hours of training wait for one who gives that right back.
    store = open_store(uri, value="output.uri", patience=Patience(allowed=("write",)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / model
        save(path)
        store.write(model, path.read_bytes())
    # After the model: whoever finds its name here finds the file as well.
    store.write(RESULTS, replace(results, model_file=model).to_json().encode())
    log.print(f"{model}, results.json and log.txt are in {uri}")
    store.write("log.txt", log.text().encode())


def is_outcome_of(uri: str, run: str) -> bool:
    """Tell whether a run's model and results lie below `uri`, before a training begins.

    Raises StorageError when that cannot be looked up, and StoppedError where this process is told to end meanwhile.
    """
    store = open_store(uri, value="output.uri", patience=Patience(heeds_sigterm=True))
    held = store.read_tagged(RESULTS)
    if held is None:
        return False
    try:
        told = json.loads(held[0])
        return told["run"] == run and told["model_file"] in store.names(folders="")
    except (ValueError, KeyError, TypeError):  # Another program's, or an earlier trainer's.
        return False
