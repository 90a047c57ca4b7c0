"""Choose the time between two checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Mean time between failures that end a job, in days, for one GPU. Kokolis et al. 2024 measured 6.50 failures per 1000
# node-days on the cluster RSC-1, whose nodes have 8 GPUs ("Revisiting Reliability in Large-Scale Machine Learning
# Research Clusters", arXiv:2410.21680). The plugin uses the same number when it derives values.
GPU_DAYS_BETWEEN_FAILURES = 8 * 1000 / 6.50
# Save the first checkpoint after SECONDS_TO_FIRST: the cost of saving is unknown until then.
SECONDS_TO_FIRST = 60.0
# Upper limit of the interval in seconds, for clusters whose machines fail more often than those of RSC-1.
LONGEST = 1800.0
# Lower limit in seconds. A failure also costs a restart, which takes about a minute. More frequent checkpoints would
# save less time than this minute, and each one costs bandwidth, processor time and requests to the storage.
SHORTEST = 60.0


@dataclass(frozen=True)
class Interval:
    """The time between two checkpoints in seconds, and the reason for this choice."""

    seconds: float
    reason: str


def checkpoint_interval(cost: float, mtbf: float) -> float:
    """Return how long to train between two checkpoints, so that checkpoints and failures together cost the least time.

    `cost` is the time for which the training stands still while a checkpoint is saved. `mtbf` is the mean time between
    failures. `cost`, `mtbf` and the result are in the same unit. The formula is the higher order estimate of Daly 2006
    ("A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22). The first-order estimate
    is sqrt(2 cost MTBF), by Young 1974 ("A first order approximation to the optimum checkpoint interval", CACM 17).
    """
    if cost >= 2 * mtbf:
        return mtbf
    ratio = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + ratio / 3 + ratio**2 / 9) - cost


def interval(every: float | None, *, stall: float, write: float, ranks: int) -> Interval:
    """Return the time between two checkpoints: `every` seconds if set, otherwise the time that costs the training
    least.

    `stall` is the number of seconds for which the last checkpoint stopped the training. `write` is the number of
    seconds from the beginning of the last checkpoint until it was written. The training continues while a checkpoint is
    written, so writing alone does not delay the training. But the next checkpoint must wait until this one is written,
    so a computed interval is never shorter than `write`.
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
