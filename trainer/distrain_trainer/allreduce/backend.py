"""What the test needs of a framework: its all-reduce, on tensors on the device that it trains on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Backend:
    """This rank, the number of ranks, and a framework's operations.

    `put` copies an array to a tensor on the device, `get` back. `all_reduce` returns the sum over all ranks after it is
    complete, and does not change its argument.
    """

    rank: int
    size: int
    put: Callable[[NDArray[np.float32]], Any]
    all_reduce: Callable[[Any], Any]
    get: Callable[[Any], NDArray[np.float32]]
    close: Callable[[], None]
