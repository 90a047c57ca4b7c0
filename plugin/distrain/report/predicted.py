"""Predict the throughput of a run at other numbers of ranks, from its measured throughput.

A plot shows the prediction beside the measured throughput.
"""

from __future__ import annotations

from collections.abc import Mapping

from distrain.derive.figures import BANDWIDTH
from distrain.predict.constants import BITS, REACHED
from distrain.predict.fit import SPREAD, Measured, computing
from distrain.predict.gradients import HOROVOD_BUCKET, buckets, even
from distrain.predict.network import TREE, Network, Size
from distrain.predict.step import Constants, step_seconds
from distrain.report.figures import Run

# A record does not say how fast the network is. Published runs reached this bandwidth, in bits/s, on a common network.
ASSUMED = REACHED * BANDWIDTH


def predicted(run: Run, rates: Mapping[int, float]) -> dict[int, float]:
    """Return the predicted samples/s for each number of ranks.

    `rates` has the measured samples/s of runs that do the same work as `run`. The dictionary is empty if the record
    does not contain enough data. Each rank counts as a worker of its own, because the record does not say which ranks
    share a node.
    """
    batch, gradients = run.batch, run.parameter_bytes
    if len(rates) < 2 or not batch or not gradients or min(rates.values()) <= 0:
        return {}
    bucketed = buckets(even(gradients), HOROVOD_BUCKET)
    first = min(rates)
    measured = Measured(Size(first, 1), first * batch / rates[first])
    network = Network(BITS / ASSUMED, BITS / ASSUMED)
    constants = computing(bucketed, measured, Constants(0.0, network, TREE, SPREAD))
    if constants.compute <= 0:
        return {}
    return {ranks: ranks * batch / step_seconds(constants, bucketed, Size(ranks, 1)) for ranks in sorted(rates)}
