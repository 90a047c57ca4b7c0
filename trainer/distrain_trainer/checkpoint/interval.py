"""How long to train between two checkpoints."""

from __future__ import annotations

import math

# Days from one failure that ends a job to the next, for one GPU: 6.50 failures in 1000 days of nodes of 8 GPUs, cluster
# RSC-1 of Kokolis et al. 2024 ("Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
# arXiv:2410.21680). The plugin's derived values assume the same.
GPU_DAYS_BETWEEN_FAILURES = 8 * 1000 / 6.50
# Before it is known how long saving takes, the first one comes early.
SECONDS_TO_FIRST = 60.0


def checkpoint_interval(cost: float, mtbf: float) -> float:
    """Return the time of work between two checkpoints that loses least, all in one unit.

    The higher order estimate of Daly 2006 ("A higher order estimate of the optimum checkpoint interval for restart
    dumps", FGCS 22), whose first order is the sqrt(2 cost MTBF) of Young 1974 ("A first order approximation to the
    optimum checkpoint interval", CACM 17). `cost` is the time that writing one takes, `mtbf` that between failures.
    """
    if cost >= 2 * mtbf:
        return mtbf
    ratio = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + ratio / 3 + ratio**2 / 9) - cost


def seconds_between(every: float | None, *, cost: float, ranks: int) -> float:
    """Return the seconds to the next checkpoint: those that the values give, else what loses least.

    `cost` is how many seconds the last one took to save.
    """
    if every is not None:
        return every
    return checkpoint_interval(cost, 86400 * GPU_DAYS_BETWEEN_FAILURES / ranks)
