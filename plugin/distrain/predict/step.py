"""Compute the seconds of a step from a rank's compute time and from the exchange of its buckets.

The buckets are exchanged one after another, each as soon as it is ready, while the backward pass computes the next
gradients (Shi et al. 2018, "A DAG Model of Synchronous Stochastic Gradient Descent in Distributed Deep Learning",
arXiv:1805.03812). The part of the exchange that is left after the backward pass makes the step longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from distrain.predict.gradients import Bucket
from distrain.predict.network import Network, Size, exchange_seconds


class Constants(Struct, frozen=True):
    """The measured constants of a run.

    `compute`: seconds that a rank computes for one batch. `spread`: how much the time of a worker varies, as a share of
    its mean. `algorithm` names how the gradients are exchanged.
    """

    compute: float
    network: Network
    algorithm: str
    spread: float = 0.0


def step_seconds(constants: Constants, buckets: Sequence[Bucket], size: Size, *, batches: int = 1) -> float:
    """Return the seconds of a step in which each rank computes `batches` batches and then exchanges once."""
    compute = constants.compute * slowest(size.workers, constants.spread)
    end = 0.0
    for bucket in buckets:
        start = max(end, bucket.ready * compute)
        end = start + exchange_seconds(bucket.size, size, constants.network, constants.algorithm)
    return (batches - 1) * compute + max(end, compute)


def slowest(workers: int, spread: float) -> float:
    """Return the time of the slowest of W workers as a multiple of the mean time.

    A step waits for the slowest worker. The largest of W normal numbers exceeds their mean by about sqrt(2 ln W)
    standard deviations (Gumbel 1958, "Statistics of Extremes").
    """
    return 1 + spread * math.sqrt(2 * math.log(workers))
