"""Define the verdicts on a job and their exit codes."""

from __future__ import annotations

from enum import Enum


class Verdict(str, Enum):
    """The verdict on whether all pods of a job fit on the cluster at the same time."""

    # Every pod gets a node, no matter in which order and on which nodes the scheduler places the pods.
    FITS = "fits"
    # Every pod gets a node only for some scheduling orders or placements, or the check could not decide.
    DEPENDS = "depends"
    # Every pod gets a node after other pods end or nodes become available again.
    BUSY = "busy"
    # The pods would not fit on empty nodes either, or a rule of the cluster refuses them permanently.
    IMPOSSIBLE = "impossible"

    def __str__(self) -> str:
        return self.value

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {Verdict.FITS: 0, Verdict.BUSY: 10, Verdict.IMPOSSIBLE: 11, Verdict.DEPENDS: 12}
