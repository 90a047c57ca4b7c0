"""Read what the trainer's models are from the chart's files/models.json, which `make schema` writes.

The trainer's package distrain_trainer.models has the descriptions.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = Path(__file__).parents[1] / "chart" / "files" / "models.json"
# The entry of users' models.
OWN = "module:function"


class DataSet(Struct, frozen=True):
    name: str
    samples: int


class Training(Struct, frozen=True):
    """How a model is commonly trained. `batch_size` is per rank, `precision` is for GPUs."""

    batch_size: int
    learning_rate: float
    epochs: int
    warmup: int
    precision: str


class Model(Struct, frozen=True):
    """A model, with the usual images as (height, width, channels). It takes no others if `smallest` is None.

    `parameters` are the trainable ones by framework. What is not known of a user's model is empty or None.
    """

    shape: tuple[int, int, int]
    classes: int
    smallest: int | None
    parameters: dict[str, int]
    data_set: DataSet | None
    training: Training
    p100_images_per_second: float | None


def describe(name: str) -> Model:
    """Return the description of an included model, or for a user's model what is assumed of it."""
    return _all().get(name, _all()[OWN])


def names() -> list[str]:
    return [name for name in _all() if name != OWN]


@cache
def _all() -> dict[str, Model]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Model])
