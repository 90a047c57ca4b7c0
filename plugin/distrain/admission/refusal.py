"""Define a refusal of a job's pods that does not depend on free capacity."""

from __future__ import annotations

from msgspec import Struct

from distrain.verdict import Verdict


class Refusal(Struct, frozen=True):
    """A refusal of some of the job's pods.

    The verdict is `busy` if the refusal ends when other pods end, otherwise `impossible`. `reason` quotes the component
    that refuses, and `next` says what the user can do next. `everywhere` is true if the scheduler refuses the pods on
    every node. `everywhere` is false if the pods are refused by something else: an admission plugin, a scheduling gate
    or kubelet.
    """

    verdict: Verdict
    reason: str
    next: str
    everywhere: bool = False
