"""The placement of weights on parameter servers."""

from __future__ import annotations

from collections.abc import Sequence


def spread(sizes: Sequence[int], servers: int) -> list[int]:
    """Return the server for each variable. The largest variables are placed first, each on the least loaded server."""
    held, chosen = [0] * servers, [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        chosen[number] = held.index(min(held))
        held[chosen[number]] += sizes[number]
    return chosen
