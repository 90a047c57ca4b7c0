"""Read the descriptions of the trainer's models from the chart's files/models.json, which `make schema` writes.

The trainer's package distrain_trainer.models has the descriptions.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = Path(__file__).parents[1] / "chart" / "files" / "models.json"
# This entry of the list of models stands for a user's own model.
OWN = "module:function"


class DataSet(Struct, frozen=True):
    name: str
    samples: int


class Training(Struct, frozen=True):
    """The usual settings for training a model.

    `batch_size` is the batch size per rank, and `precision` is the precision on GPUs.
    """

    batch_size: int
    learning_rate: float
    epochs: int
    warmup: int
    precision: str


class Model(Struct, frozen=True):
    """A model.

    Its usual images have the shape (height, width, channels). If `smallest` is not set, the model accepts only its
    usual image size.

    `parameters` has the number of trainable parameters for each framework. For each layer, in the order of the forward
    pass, `layers` has its number of parameters and its multiplications per image. Fields that are unknown for a user's
    own model are empty or None.
    """

    shape: tuple[int, int, int]
    classes: int
    smallest: int | None
    parameters: dict[str, int]
    layers: tuple[tuple[int, int], ...]
    data_set: DataSet | None
    training: Training
    p100_images_per_second: float | None

    @property
    def usual_data(self) -> str:
        """Return a text such as "images of 28x28x1 and 10 classes"."""
        return f"images of {'x'.join(map(str, self.shape))} and {self.classes} classes"


def describe(name: str) -> Model:
    """Return the description of a model that distrain includes.

    For a user's own model, return a description with assumed values.
    """
    return _all().get(name, _all()[OWN])


def names() -> list[str]:
    return [name for name in _all() if name != OWN]


@cache
def _all() -> dict[str, Model]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Model])
