"""How long to train between two checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Days from one failure that ends a job to the next, for one GPU: 6.50 failures in 1000 days of nodes of 8 GPUs, cluster
# RSC-1 of Kokolis et al. 2024 ("Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
# arXiv:2410.21680). The plugin's derived values assume the same.
GPU_DAYS_BETWEEN_FAILURES = 8 * 1000 / 6.50
# Before it is known how long saving takes, the first one comes early.
SECONDS_TO_FIRST = 60.0
# That cluster is well kept. Where machines fail more often, no more than this is lost.
LONGEST = 1800.0
# A failure also costs the restart, which takes about a minute. More frequent saves would spare less than that, and each
# one takes bandwidth, processor time and requests to the storage.
SHORTEST = 60.0


@dataclass(frozen=True)
class Interval:
    """Seconds from one checkpoint to the next, and why so many."""

    seconds: float
    reason: str


def checkpoint_interval(cost: float, mtbf: float) -> float:
    """Return the time of work between two checkpoints that loses least, all in one unit.

    The higher order estimate of Daly 2006 ("A higher order estimate of the optimum checkpoint interval for restart
    dumps", FGCS 22), whose first order is the sqrt(2 cost MTBF) of Young 1974 ("A first order approximation to the
    optimum checkpoint interval", CACM 17). `cost` is the time that the work stands still, `mtbf` that between failures.
    """
    if cost >= 2 * mtbf:
        return mtbf
    ratio = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + ratio / 3 + ratio**2 / 9) - cost


def interval(every: float | None, *, stall: float, write: float, ranks: int) -> Interval:
    """Return the interval that the values give, or else the one that loses least.

    `stall` is how many seconds the last checkpoint held the training up, `write` how many it took in all. The training
    goes on during the write, so the write costs no work, but the next checkpoint has to wait for it: a write that takes
    longer than LONGEST makes the interval as long.
    """
    if every is not None:
        return Interval(every, "checkpoint.every")
    best = checkpoint_interval(stall, 86400 * GPU_DAYS_BETWEEN_FAILURES / ranks)
    if write > min(max(best, SHORTEST), LONGEST):
        return Interval(write, f"auto: writing one takes {write:.0f} s")
    if best < SHORTEST:
        return Interval(SHORTEST, "auto: at least a minute")
    if best > LONGEST:
        return Interval(LONGEST, f"auto: at most {LONGEST / 60:.0f} minutes")
    return Interval(best, f"auto: loses least for {ranks} ranks that stand still {stall:.2g} s for each")
