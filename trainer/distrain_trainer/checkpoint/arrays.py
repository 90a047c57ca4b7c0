"""Describe the named arrays of a run's state: their types and shapes, and how large arrays are cut into pieces."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from distrain_trainer.errors import ArgumentError

Array = npt.NDArray[Any]
# The arrays of a training state, keyed by name. NumPy lacks the type bfloat16, so such arrays are stored as unsigned
# integers of the same size.
Arrays = Mapping[str, Array]

# Maps the framework's name of an element type to its safetensors name and to the NumPy type that stores it.
TYPES = {
    "float64": ("F64", "float64"),
    "int64": ("I64", "int64"),
    "uint64": ("U64", "uint64"),
    "complex64": ("C64", "complex64"),
    "float32": ("F32", "float32"),
    "int32": ("I32", "int32"),
    "uint32": ("U32", "uint32"),
    "float16": ("F16", "float16"),
    "bfloat16": ("BF16", "uint16"),
    "int16": ("I16", "int16"),
    "uint16": ("U16", "uint16"),
    "int8": ("I8", "int8"),
    "uint8": ("U8", "uint8"),
    "bool": ("BOOL", "bool"),
}
NAMES = {code: name for name, (code, _) in TYPES.items()}
HELD = {code: np.dtype(held) for code, held in TYPES.values()}
# NumPy has no type bfloat16. If an array has no Field that names its type, this structured type marks it as bfloat16.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])


@dataclass(frozen=True)
class Field:
    """The type and the shape of an array, with the type's name in safetensors."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, dtype: str, shape: Iterable[int]) -> Field:
        """Return the Field of an array, given the framework's name for its element type.

        Raises ArgumentError if checkpoints cannot contain this element type.
        """
        if dtype not in TYPES:
            raise ArgumentError(
                f"trainer.model: {name} is of type {dtype}, but checkpoints hold only {', '.join(TYPES)}; convert it"
            )
        return cls(TYPES[dtype][0], tuple(int(size) for size in shape))

    @property
    def type_name(self) -> str:
        """The element type's name in the frameworks."""
        return NAMES[self.dtype]

    @property
    def size(self) -> int:
        """The array's size in bytes."""
        return math.prod(self.shape) * HELD[self.dtype].itemsize


Fields = Mapping[str, Field]


@dataclass(frozen=True)
class Cut:
    """A piece of an array that is divided between several files: the index of its first element, and the whole array's
    shape.
    """

    start: int
    shape: tuple[int, ...]


Cuts = Mapping[str, Cut]


def elements(array: Any, cut: Cut | None, size: int) -> Any:
    """Return the part of an array that belongs in one file. The array is from NumPy, PyTorch or MXNet.

    If `cut` is None, the part is the whole array. Otherwise the part is a flat array with `size` elements, from the
    cut's first element on.
    """
    return array if cut is None else array.reshape(-1)[cut.start : cut.start + size]


def subset(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names begin with the prefix, with the prefix removed from their names."""
    return {name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)}


def require_same_model(fields: Fields, start: Fields) -> None:
    """Raise ArgumentError if a training step has added, removed or changed an array of the model.

    A new run would build the model without this change, and so it could not load a checkpoint.
    """
    before, now = subset(start, "model."), subset(fields, "model.")
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            texts = (
                f"{found.type_name}{list(found.shape)}" if found else "absent"
                for found in (before.get(name), now.get(name))
            )
            change = " before and ".join(texts)
            raise ArgumentError(
                f"trainer.model: {name} is {change} after a training step, but a step must not add or remove arrays, "
                "or change their type or shape; create each array when the model is built, and keep its type and shape"
            )


def shapes(fields: Fields) -> dict[str, list[int]]:
    """Return the shape of each array of the model, keyed by the array's name in the model."""
    return {name: list(field.shape) for name, field in subset(fields, "model.").items()}
