"""What stops a job's pods beside the room on the nodes."""

from __future__ import annotations

from msgspec import Struct

IMPOSSIBLE, BUSY = "impossible", "busy"


class Obstacle(Struct, frozen=True):
    """Something in the way of a job: `busy` goes by itself once other pods end, `impossible` does not.

    `reason` is in the words of who refuses the pods, and `next` says what a person can do. Where it is the scheduler
    that refuses, it does so `everywhere`, on each node; others refuse before it sees the pods.
    """

    verdict: str
    reason: str
    next: str
    everywhere: bool = False
