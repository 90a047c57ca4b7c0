"""What the tests of checkpoints share: a state of one array, and a world of one rank."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import numpy as np

from distrain_trainer.checkpoint import arrays
from distrain_trainer.config import Config
from distrain_trainer.data import Dataset
from distrain_trainer.data.idx import Arrays
from distrain_trainer.log import Log
from distrain_trainer.loop.run import Run, World
from distrain_trainer.loop.stop_flag import SIGNALS

ALONE = World(0, 1, lambda value: value, lambda value: [value])
DATASET = Dataset(Arrays(np.zeros((100, 4, 4, 1), dtype=np.uint8), np.zeros(100, dtype=np.int64)), None, classes=1)


class Counter:
    """A state whose only weight counts the steps."""

    def __init__(self, size: int = 1, dtype: str = "float64") -> None:
        self.weight, self.dtype = np.zeros(size, arrays.HELD[arrays.TYPES[dtype][0]]), dtype

    def fields(self) -> arrays.Fields:
        return {"model.weight": arrays.Field.of("model.weight", self.dtype, self.weight.shape)}

    def wait(self) -> None:
        pass

    def copy(self, into: arrays.Arrays) -> None:
        into["model.weight"][:] = self.weight

    def load(self, found: arrays.Arrays) -> None:
        self.weight[:] = found["model.weight"]

    def former(self, content: bytes) -> arrays.Arrays:
        with np.load(io.BytesIO(content)) as found:
            return {"model.weight": found["weight"]}


def config_of(folder: Path | str, **values: object) -> Config:
    usual = {"data": "/data", "epochs": 9, "batch_size": 10, "checkpoint": str(folder)}
    return Config(**{**usual, **values})  # type: ignore[arg-type]


def begin(folder: Path | str, state: Counter | None = None, **values: object) -> Run:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        return Run.begin(config_of(folder, **values), DATASET, state or Counter(), ALONE, Log(speaks=True))
    finally:  # The signals stay pytest's.
        for number, handler in handlers.items():
            signal.signal(number, handler)


def make_step(run: Run) -> None:
    assert isinstance(run.state, Counter)
    run.state.weight += 1
    run.made_step(10, asked=run.asked)


def save_step(run: Run) -> None:
    """Make a step, and have it saved."""
    assert isinstance(run.state, Counter)
    assert run.saver is not None
    run.state.weight += 1
    run.position = run.position.after_step(10, ranks=1, batch_size=10, epoch_samples=100)
    assert run.saver.save_last(run._snapshot, run.position.samples) == ""
