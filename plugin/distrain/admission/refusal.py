"""What refuses a job's pods, besides the room on the nodes."""

from __future__ import annotations

from msgspec import Struct

from distrain.verdict import Verdict


class Refusal(Struct, frozen=True):
    """A refusal of some of the job's pods.

    The verdict is `busy` if the refusal ends once other pods end, else `impossible`. `reason` has the words of the
    component that refuses, and `next` says what the user can do. `everywhere`: the scheduler refuses, on every node;
    other components refuse before the scheduler sees the pods.
    """

    verdict: Verdict
    reason: str
    next: str
    everywhere: bool = False
