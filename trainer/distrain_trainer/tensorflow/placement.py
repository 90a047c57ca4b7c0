"""The placement of weights on parameter servers."""

from __future__ import annotations

from collections.abc import Sequence


def spread(sizes: Sequence[int], servers: int) -> list[int]:
    """Return the server of each variable: largest first, each to the server with the smallest total so far."""
    held, chosen = [0] * servers, [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        chosen[number] = held.index(min(held))
        held[chosen[number]] += sizes[number]
    return chosen
