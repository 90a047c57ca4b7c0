"""The ranks of a run, and the collectives that a run needs of every framework."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from distrain_trainer.checkpoint.arrays import Buffer

# Bytes per broadcast of a buffer. Each piece is pickled, which makes copies of it.
CHUNK = 4 * 1024**2


@dataclass(frozen=True)
class ProcessGroup:
    """This rank, the number of ranks, and two collectives: broadcast from rank 0, and gather to all ranks.

    `shares_state` is false with parameter servers: only rank 0 loads and saves the state.
    """

    rank: int
    size: int
    broadcast: Callable[[Any], Any]
    gather: Callable[[Any], list[Any]]
    shares_state: bool = True

    @classmethod
    def of_horovod(cls, hvd: Any) -> ProcessGroup:
        """Return the group of all ranks. `hvd` is Horovod's module for a framework, after its init()."""
        # Give names. Horovod's default is the name of the value's type, which may differ between ranks.
        broadcast = functools.partial(hvd.broadcast_object, name="value")
        return cls(hvd.rank(), hvd.size(), broadcast, functools.partial(hvd.allgather_object, name="values"))

    def share(self, buffer: Buffer, size: int) -> None:
        """Copy rank 0's buffer to all ranks, piece by piece, so that no rank needs memory for a second copy."""
        buffer.reserve(size)
        for start in range(0, size, CHUNK):
            place = buffer.span(start, min(size, start + CHUNK))
            piece = self.broadcast(bytes(place) if self.rank == 0 else None)
            if self.rank != 0:
                place[:] = piece
