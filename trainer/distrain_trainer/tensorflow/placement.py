"""Choose the parameter server that holds each weight."""

from __future__ import annotations

from collections.abc import Sequence


def spread(sizes: Sequence[int], servers: int) -> list[int]:
    """Return the number of the server for each variable.

    The largest variables are placed first, and each one goes to the server that holds the fewest bytes so far.
    """
    held, chosen = [0] * servers, [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        chosen[number] = held.index(min(held))
        held[chosen[number]] += sizes[number]
    return chosen
