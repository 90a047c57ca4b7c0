"""Define the ranks of a run, and the collectives that a run needs from every framework."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distrain_trainer.checkpoint.buffer import Buffer

# Maximum bytes that one rank sends in one collective. Sending pickles the bytes, which makes copies of them.
CHUNK = 4 * 1024**2
# Maximum bytes that a rank receives from all ranks together in one collective.
CHUNKS = 64 * 1024**2
# The start and end offset, in a rank's buffer, of the bytes that this rank has read.
Span = tuple[int, int]


@dataclass(frozen=True)
class ProcessGroup:
    """This rank, the number of ranks, and two collectives: broadcast from rank 0, and gather to all ranks.

    `shares_state` is false with parameter servers, where only rank 0 loads and saves the state.
    """

    rank: int
    size: int
    broadcast: Callable[[Any], Any]
    gather: Callable[[Any], list[Any]]
    shares_state: bool = True

    @classmethod
    def of_horovod(cls, hvd: Any) -> ProcessGroup:
        """Return the group of all ranks. `hvd` is Horovod's module for a framework, already initialized."""
        # Give Horovod fixed names. By default, Horovod names a value by its type, which may differ between ranks.
        broadcast = functools.partial(hvd.broadcast_object, name="value")
        return cls(hvd.rank(), hvd.size(), broadcast, functools.partial(hvd.allgather_object, name="values"))

    def share(self, buffer: Buffer, spans: Sequence[Span]) -> None:
        """Exchange the bytes that the ranks have read: send this rank's bytes to all other ranks, and receive theirs.

        `spans` says for each rank where in the buffer the bytes are that this rank has read. So each rank's buffer must
        be large enough for the bytes of all ranks. The ranks send small pieces, so no rank needs memory for a second
        copy of the state.
        """
        if all(start == end for start, end in spans[1:]):
            self._share_of_rank_0(buffer, *spans[0])
            return
        chunk = max(1, min(CHUNK, CHUNKS // self.size))
        for place in range(0, max(end - start for start, end in spans), chunk):
            pieces = [(min(end, start + place), min(end, start + place + chunk)) for start, end in spans]
            contents = self.gather(bytes(buffer.span(*pieces[self.rank])))
            for rank, (piece, content) in enumerate(zip(pieces, contents, strict=True)):
                if rank != self.rank:
                    buffer.span(*piece)[:] = content

    def _share_of_rank_0(self, buffer: Buffer, first: int, last: int) -> None:
        for start in range(first, last, CHUNK):
            place = buffer.span(start, min(last, start + CHUNK))
            piece = self.broadcast(bytes(place) if self.rank == 0 else None)
            if self.rank != 0:
                place[:] = piece
