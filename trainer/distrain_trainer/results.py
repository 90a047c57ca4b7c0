"""Write the outcome of a run: the trained model, results.json and log.txt."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from distrain_trainer.log import Log
from distrain_trainer.storage import Retry, Store, open_store

RESULTS = "results.json"
# The names of the best model's files begin with this prefix.
BEST = "best-"
BEST_EVALUATION = f"{BEST}evaluation.json"
# The maximum number of logged steps in the history. Every manifest contains the history, and a plot needs no more
# points.
LOGGED_KEPT = 1000


@dataclass(frozen=True)
class LoggedStep:
    """The figures of one log line. `images_per_sec` is the rate of one rank."""

    step: int
    images_per_sec: float
    loss: float


class Accuracy(NamedTuple):
    """The shares of test samples that the model classifies correctly, from 0 to 1.

    `top1` is the share of samples whose label is the model's first choice. `top5` is the share of samples whose label
    is among its first five choices.
    """

    top1: float
    top5: float


@dataclass(frozen=True)
class Evaluation:
    """The accuracy after an epoch. `samples` is the number of samples that all ranks have trained on so far."""

    epoch: int
    step: int
    samples: int
    accuracy: float
    top5_accuracy: float


def add(history: list[LoggedStep], step: LoggedStep) -> None:
    """Append a logged step.

    If there are more than LOGGED_KEPT steps, remove the step whose two neighbours are closest to each other. So the
    first and the last step of the run are always kept, and the others are spread evenly between them. Which steps are
    kept depends only on the step numbers, so a resumed run keeps the same steps.
    """
    history.append(step)
    while len(history) > 2 * LOGGED_KEPT:  # Manifests of earlier trainer versions contain every logged step.
        del history[1:-1:2]
    while len(history) > LOGGED_KEPT:
        gaps = [after.step - before.step for before, after in zip(history, history[2:], strict=False)]
        del history[1 + gaps.index(min(gaps))]


@dataclass(frozen=True)
class Results:
    """The figures of a run, as results.json contains them.

    `images_per_sec` is the rate of all ranks together, or None if this start has made no step. `accuracy` and
    `top5_accuracy` are between 0 and 1, or None if there is no test data. `run` identifies the run by the checkpoints'
    URI and the generation. Without checkpoints, `run` is "". `model_file` is the name of the model's file in the folder
    of results.json. `evaluations` are the results of the tests that --evaluate-every asks for.
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
    top5_accuracy: float | None = None
    evaluations: list[Evaluation] = field(default_factory=list)

    def to_json(self) -> bytes:
        return _json(asdict(self))


def write_outcome(uri: str, results: Results, log: Log, *, save: Callable[[Path], None]) -> None:
    """Write the outcome of a run to the folder `uri`.

    `save` writes the model to the given local path, whose file name is `results.model_file`. `save` may also write the
    model to the same folder in other formats, as files or folders. Raises StorageError if a file cannot be written.
    """
    store = _open(uri)
    names = _write_model(store, results.model_file, save)
    # results.json contains the model's name, so write the model first.
    store.write(RESULTS, results.to_json())
    log.print(f"{', '.join(names)}, results.json and log.txt are in {uri}")
    store.write("log.txt", log.text().encode())


def write_model(uri: str, *, model_file: str, save: Callable[[Path], None]) -> None:
    """Write only the model. The arguments are the same as those of write_outcome.

    Raises StorageError if a file cannot be written.
    """
    _write_model(_open(uri), model_file, save)


def write_best(uri: str, evaluation: Evaluation, *, model_file: str, save: Callable[[Path], None]) -> None:
    """Write the model that was best in the evaluations so far to the folder `uri`, in addition to the final model.

    The arguments are the same as those of write_outcome.

    Raises StorageError if a file cannot be written.
    """
    store = _open(uri)
    _write_model(store, f"{BEST}{model_file}", save)
    store.write(BEST_EVALUATION, _json(asdict(evaluation)))


def holds_best(uri: str, evaluation: Evaluation) -> bool:
    """Return whether the folder `uri` contains the best model with this evaluation.

    Raises StorageError if the store cannot be read.
    """
    held = _open(uri).read_tagged(BEST_EVALUATION)
    return held is not None and held[0] == _json(asdict(evaluation))


def _json(figures: dict[str, Any]) -> bytes:
    return (json.dumps(figures, indent=2) + "\n").encode()


def _open(uri: str) -> Store:
    # The store accepted a write at the start of the run. If it refuses one now, retry: the permission may be granted
    # again.
    return open_store(uri, value="output.uri", retry=Retry(allowed=("write",)))


def _write_model(store: Store, name: str, save: Callable[[Path], None]) -> list[str]:
    """Write a model, and return the names of its files and folders."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / name
        save(model)
        others = sorted(path for path in Path(folder).rglob("*") if path.is_file() and path != model)
        # Write the model's main file last: if it exists, all other files of the model exist too.
        for path in (*others, model):
            store.write(path.relative_to(folder).as_posix(), path.read_bytes())
        return sorted(path.name for path in Path(folder).iterdir())


def is_outcome_of(uri: str, run: str) -> bool:
    """Return whether the folder `uri` contains the model and results of the run `run`.

    Called before the training begins. Raises StorageError if the store cannot be read, StoppedError if a signal arrives
    during an outage.
    """
    store = open_store(uri, value="output.uri", retry=Retry(heeds_sigterm=True))
    held = store.read_tagged(RESULTS)
    if held is None:
        return False
    try:
        told = json.loads(held[0])
        return told["run"] == run and told["model_file"] in store.names(folders="")
    # The file was written by another program, or by an earlier version of the trainer.
    except (ValueError, KeyError, TypeError):
        return False
