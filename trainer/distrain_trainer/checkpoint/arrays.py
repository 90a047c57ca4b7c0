"""Named arrays as the content of an .npz file, without pickles."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[np.generic]]


def encode(arrays: Arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def decode(content: bytes) -> dict[str, npt.NDArray[np.generic]]:
    with np.load(io.BytesIO(content)) as arrays:
        return dict(arrays)


def shapes(arrays: Mapping[str, object]) -> dict[str, list[int]]:
    """Return the shapes of arrays of any framework."""
    return {name: [int(size) for size in array.shape] for name, array in arrays.items()}  # type: ignore[attr-defined]
