"""Define the message that a rank sends at each step.

In each step, the ranks' messages are added up and the gradients are averaged. A message has the shape (SIZE,) and the
type float64. A message contains the rank's loss, and a 1 at the index of the rank's reason to stop. All ranks get the
same sum, so they compute the same mean loss and choose the same reason to stop. So all ranks stop at the same step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.steps import Outcome

SIZE = 1 + len(stop_flag.REASONS)


def outcome(own: float, told: Sequence[float], ranks: int, allreduce_wait: float | None = None) -> Outcome:
    """Return a step's outcome. `told` is the element-wise sum of the messages that all `ranks` ranks sent.

    `own` is this rank's loss after the step. If the step was left out, `own` is NaN on all ranks.
    """
    total, *counts = told
    asked = max(reason for reason, count in zip(stop_flag.REASONS, counts, strict=True) if count)
    # If a step was left out, every rank's own loss is NaN, and there is no mean loss. In any other step, if one rank's
    # loss is not finite, the sum over all ranks is not finite either.
    return Outcome(total / ranks if math.isfinite(own) else own, asked, allreduce_wait)
