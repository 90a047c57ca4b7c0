"""Keep host memory for a run's state.

A rank uses this memory for the files that it saves, and for the state that it loads.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from distrain_trainer.checkpoint.arrays import BFLOAT16, HELD, Array, Arrays, Field
from distrain_trainer.checkpoint.layout import Part, header_of, places_in, plan, widest_first


class Buffer:
    """Host memory for one state.

    The memory is reused, because copying to newly allocated pages takes five times as long.
    """

    def __init__(self) -> None:
        self._memory = np.zeros(0, dtype=np.uint8)
        self._reserving = threading.Lock()

    def reserve(self, size: int, *, touches: bool = True) -> None:
        """Allocate at least `size` bytes.

        With `touches`, write to each page, so that the kernel allocates the page now and not during a later copy.
        """
        with self._reserving:
            if len(self._memory) < size:
                self._memory = np.zeros(0, dtype=np.uint8)  # Free the old memory before allocating the new memory.
                self._memory = np.empty(size, dtype=np.uint8)
                if touches:
                    self._memory.fill(0)

    def release(self) -> None:
        with self._reserving:
            self._memory = np.zeros(0, dtype=np.uint8)

    def place(self, parts: Sequence[Part]) -> Arrays:
        """Write the files' headers into the buffer.

        Return views of the buffer, which the caller must fill with the arrays' content.
        """
        self.reserve(parts[-1].end)
        for part in parts:
            self._memory[part.start : part.data] = np.frombuffer(part.header, dtype=np.uint8)
        return {name: self._view(place, part.fields[name]) for part in parts for name, place in places_in(part)}

    def arrays(self, parts: Sequence[Part]) -> Arrays:
        """Return the arrays of a checkpoint as views of the buffer. An array that is cut into pieces is returned whole.

        The next use of the buffer overwrites these arrays, so copy an array to keep it.
        """
        found: dict[str, Array] = {}
        for part in parts:
            fields = part.whole_fields
            for name, place in places_in(part):
                if name not in found:  # Its pieces are adjacent, so the array starts at its first piece.
                    found[name] = self._view(place, fields[name])
        return found

    def _view(self, place: int, field: Field) -> Array:
        content = self._memory[place : place + field.size]
        return content.view(HELD[field.dtype]).reshape(field.shape)

    def span(self, start: int, end: int) -> memoryview:
        return self._memory.data[start:end]

    def fill(self, arrays: Arrays) -> list[Part]:
        """Copy arrays into the buffer, and return the layout of their files. Types: NumPy's, and BFLOAT16."""
        parts = plan(_fields_in(arrays))
        for name, place in self.place(parts).items():
            place[...] = arrays[name].view(place.dtype)
        return parts


def write_file(path: Path, arrays: Arrays) -> None:
    """Write arrays of NumPy's types or of type BFLOAT16 to a single file of the safetensors format."""
    fields = widest_first(_fields_in(arrays))
    with path.open("wb") as file:
        file.write(header_of(fields, {}))
        file.flush()  # tofile bypasses Python's buffer.
        for name in fields:
            arrays[name].tofile(file)


def _fields_in(arrays: Arrays) -> dict[str, Field]:
    types = {name: "bfloat16" if array.dtype == BFLOAT16 else array.dtype.name for name, array in arrays.items()}
    return {name: Field.of(name, types[name], array.shape) for name, array in arrays.items()}
