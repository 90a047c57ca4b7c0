"""Define the message of a rank at each step. A step sums the messages of all ranks, and averages their gradients.

A message has the shape (SIZE,), float64: the rank's loss, and a 1 at the index of the rank's reason to stop. From the
sum every rank computes the mean loss and the largest reason, so that all ranks stop at the same step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.steps import Outcome

SIZE = 1 + len(stop_flag.REASONS)


def outcome(own: float, told: Sequence[float], ranks: int, allreduce_wait: float | None = None) -> Outcome:
    """Return a step's outcome. `told` is the sum of the messages of all `ranks`.

    `own` is this rank's loss after the step. It is NaN on all ranks if the step was left out.
    """
    total, *counts = told
    asked = max(reason for reason, count in zip(stop_flag.REASONS, counts, strict=True) if count)
    # A step that was left out has no mean loss: every rank's own loss is NaN then. In all other steps, a loss that is
    # not finite on one rank makes the sum over all ranks not finite.
    return Outcome(total / ranks if math.isfinite(own) else own, asked, allreduce_wait)
