"""Define a refusal of a job's pods that does not depend on free capacity."""

from __future__ import annotations

from msgspec import Struct

from distrain.verdict import Verdict


class Refusal(Struct, frozen=True):
    """A refusal of some of the job's pods.

    The verdict is `busy` if the refusal ends when other pods end, otherwise `impossible`. `reason` quotes the component
    that refuses, and `next` is the user's next step. `everywhere` is true if the scheduler refuses the pods on every
    node, and false if another component refuses them before scheduling.
    """

    verdict: Verdict
    reason: str
    next: str
    everywhere: bool = False
