"""The verdict on a job: its word and its exit code."""

from __future__ import annotations

from enum import Enum


class Verdict(str, Enum):
    """Whether the pods of a job fit the cluster at once."""

    # Every pod fits, whatever order and nodes the scheduler chooses.
    FITS = "fits"
    # Every pod fits in some orders or places only, or the check could not decide.
    DEPENDS = "depends"
    # Every pod fits once other pods end or nodes come back.
    BUSY = "busy"
    # The pods do not fit even on empty nodes, or something refuses them for good.
    IMPOSSIBLE = "impossible"

    def __str__(self) -> str:
        return self.value

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {Verdict.FITS: 0, Verdict.BUSY: 10, Verdict.IMPOSSIBLE: 11, Verdict.DEPENDS: 12}
