"""Define the operations that the all-reduce test needs from a framework. The operations use the training device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Backend:
    """This rank, the number of ranks, and a framework's operations.

    `put` copies a NumPy array to a tensor on the device. `get` copies a tensor to a NumPy array. `all_reduce` waits for
    the sum over all ranks and returns it. `all_reduce` does not change its argument.
    """

    rank: int
    size: int
    put: Callable[[NDArray[np.float32]], Any]
    all_reduce: Callable[[Any], Any]
    get: Callable[[Any], NDArray[np.float32]]
    close: Callable[[], None]
