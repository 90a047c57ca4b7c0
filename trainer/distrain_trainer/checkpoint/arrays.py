"""Lay out a run's state, as named arrays, in one buffer that is kept: as files of the safetensors format, side by side.

A file consists of the header's length in 8 bytes, the header in JSON with each array's type, shape and offset, and the
arrays' bytes (https://github.com/huggingface/safetensors#format). The package `safetensors` would allocate new memory
at every save, so the layout is written here. The package can read the files.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from distrain_trainer.errors import ArgumentError

Array = npt.NDArray[Any]
# A state's arrays by name. Types that NumPy does not have (bfloat16) are held as unsigned integers of the same size.
Arrays = Mapping[str, Array]

# Framework's name of an element type -> its name in safetensors, and the NumPy type that holds it.
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
# Marks an array as bfloat16 where only the array itself is passed on: a structured type with one field of that name.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
# The largest part, except for larger arrays, which have a part of their own. A part is written in one call.
PART_BYTES = 128 * 1024**2
# Parts begin at multiples of this in the buffer, for fast copies.
ALIGNMENT = 64


@dataclass(frozen=True)
class Field:
    """An array's safetensors type and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, dtype: str, shape: Iterable[int]) -> Field:
        """Return the field of an array with a framework's type name. Raises ArgumentError unless in TYPES."""
        if dtype not in TYPES:
            raise ArgumentError(
                f"trainer.model: {name} is of type {dtype}, and a checkpoint holds {', '.join(TYPES)}; convert it"
            )
        return cls(TYPES[dtype][0], tuple(int(size) for size in shape))

    @property
    def type_name(self) -> str:
        """The name of the type in the frameworks."""
        return NAMES[self.dtype]

    @property
    def size(self) -> int:
        """The array's size in bytes."""
        return math.prod(self.shape) * HELD[self.dtype].itemsize


Fields = Mapping[str, Field]


@dataclass(frozen=True)
class Part:
    """A file of a checkpoint, its header and fields, and the offset in the buffer where it begins."""

    file: str
    start: int
    header: bytes
    fields: Fields

    @property
    def size(self) -> int:
        return len(self.header) + sum(field.size for field in self.fields.values())

    @property
    def end(self) -> int:
        return self.start + self.size


def plan(fields: Fields) -> list[Part]:
    """Lay out a state's arrays in parts. Arrays with larger elements come first, so that every array is aligned."""
    parts: list[Part] = []
    for group in _groups(fields):
        start = aligned(parts[-1].end) if parts else 0
        parts.append(Part(f"state-{len(parts)}.safetensors", start, _header(group), group))
    return parts


def _groups(fields: Fields) -> list[dict[str, Field]]:
    groups: list[dict[str, Field]] = [{}]
    size = 0
    for name, field in _widest_first(fields).items():
        if groups[-1] and size + field.size > PART_BYTES:
            groups.append({})
            size = 0
        groups[-1][name] = field
        size += field.size
    return groups


def _widest_first(fields: Fields) -> dict[str, Field]:
    return dict(sorted(fields.items(), key=lambda item: -HELD[item[1].dtype].itemsize))


def _header(fields: Fields) -> bytes:
    told, place = {}, 0
    for name, field in fields.items():
        told[name] = {"dtype": field.dtype, "shape": field.shape, "data_offsets": [place, place + field.size]}
        place += field.size
    text = json.dumps(told, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def parse(file: str, start: int, content: memoryview) -> Part:
    """Parse the header of a file at `start` in the buffer. Raises ValueError if it is not a safetensors file."""
    try:
        length = 8 + int.from_bytes(content[:8], "little")
        told = json.loads(bytes(content[8:length]))
        told.pop("__metadata__", None)
        in_order = sorted(told.items(), key=lambda item: int(item[1]["data_offsets"][0]))
        fields = {name: Field(each["dtype"], tuple(each["shape"])) for name, each in in_order}
        part = Part(file, start, bytes(content[:length]), fields)
        is_whole = part.size == len(content)
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"{file} is no file of arrays")
    return part


def aligned(place: int) -> int:
    return place + -place % ALIGNMENT


class Buffer:
    """Host memory for one state. It is kept, as a copy into newly allocated pages takes five times as long."""

    def __init__(self) -> None:
        self._memory = np.zeros(0, dtype=np.uint8)
        self._reserving = threading.Lock()

    def reserve(self, size: int) -> None:
        """Allocate at least `size` bytes, and touch each page."""
        with self._reserving:
            if len(self._memory) < size:
                self._memory = np.zeros(0, dtype=np.uint8)  # Free the old memory first.
                self._memory = np.empty(size, dtype=np.uint8)
                self._memory.fill(0)

    def release(self) -> None:
        with self._reserving:
            self._memory = np.zeros(0, dtype=np.uint8)

    def place(self, parts: Sequence[Part]) -> Arrays:
        """Write the parts' headers into the buffer, and return the parts' arrays for the caller to fill."""
        self.reserve(parts[-1].end)
        for part in parts:
            self._memory[part.start : part.start + len(part.header)] = np.frombuffer(part.header, dtype=np.uint8)
        return self.arrays(parts)

    def arrays(self, parts: Sequence[Part]) -> Arrays:
        """Return the parts' arrays as views of the buffer. Copy an array to keep it."""
        found: dict[str, Array] = {}
        for part in parts:
            place = part.start + len(part.header)
            for name, field in part.fields.items():
                content = self._memory[place : place + field.size]
                found[name] = content.view(HELD[field.dtype]).reshape(field.shape)
                place += field.size
        return found

    def span(self, start: int, end: int) -> memoryview:
        return self._memory.data[start:end]

    def fill(self, arrays: Arrays) -> list[Part]:
        """Copy arrays of NumPy's types, or of BFLOAT16, into the buffer, and return their parts."""
        parts = plan(_fields_of(arrays))
        for name, place in self.place(parts).items():
            place[...] = arrays[name].view(place.dtype)
        return parts


def _fields_of(arrays: Arrays) -> dict[str, Field]:
    types = {name: "bfloat16" if array.dtype == BFLOAT16 else array.dtype.name for name, array in arrays.items()}
    return {name: Field.of(name, types[name], array.shape) for name, array in arrays.items()}


def write_file(path: Path, arrays: Arrays) -> None:
    """Write arrays of NumPy's types, or of BFLOAT16, to one file of the safetensors format."""
    fields = _widest_first(_fields_of(arrays))
    with path.open("wb") as file:
        file.write(_header(fields))
        file.flush()  # tofile writes past Python's buffer.
        for name in fields:
            arrays[name].tofile(file)


def subset(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose name has the prefix, by the names without it."""
    return {name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)}


def require_same_model(fields: Fields, start: Fields) -> None:
    """Raise ArgumentError if the model's arrays are not those of the start, as a checkpoint could not be loaded."""
    before, now = subset(start, "model."), subset(fields, "model.")
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            texts = (
                f"{found.type_name}{list(found.shape)}" if found else "absent"
                for found in (before.get(name), now.get(name))
            )
            change = " before a training step and ".join(texts)
            raise ArgumentError(
                f"trainer.model: {name} is {change} after it, and a checkpoint holds the arrays of the start; create "
                "it when the model is built, and keep its type and shape"
            )


def shapes(fields: Fields) -> dict[str, list[int]]:
    """Return the shapes of the model's arrays, by their names in the model."""
    return {name: list(field.shape) for name, field in subset(fields, "model.").items()}
