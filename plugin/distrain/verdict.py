"""Define the verdicts on a job and their exit codes."""

from __future__ import annotations

from enum import Enum


class Verdict(str, Enum):
    """Whether all pods of a job fit the cluster at the same time."""

    # Every pod fits, whichever order and nodes the scheduler chooses.
    FITS = "fits"
    # Every pod fits for some scheduling orders or placements only, or the check could not decide.
    DEPENDS = "depends"
    # Every pod fits after other pods end or nodes become available again.
    BUSY = "busy"
    # The pods do not fit even on empty nodes, or a rule of the cluster refuses them permanently.
    IMPOSSIBLE = "impossible"

    def __str__(self) -> str:
        return self.value

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {Verdict.FITS: 0, Verdict.BUSY: 10, Verdict.IMPOSSIBLE: 11, Verdict.DEPENDS: 12}
