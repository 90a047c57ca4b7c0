"""Turn the figures of a pod's ranks into metrics. Names and units follow the conventions of OpenMetrics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric

from distrain_trainer.metrics.figures import BUCKETS, Figures


class Described(NamedTuple):
    """A metric's name without the prefix, its help text, and its unit.

    If the metric has a unit, the name ends with it.
    """

    name: str
    help: str
    unit: str = ""


PREFIX = "distrain_"
INFO = Described("run", "What this run trains.")
# Metrics of the run. Only rank 0 serves these metrics.
GAUGES = (
    Described("world_size", "Ranks that train."),
    Described("step", "Steps in the history of the weights. After a kill it goes back to the last checkpoint."),
    Described("planned_steps", "Step at which the run ends."),
    Described("samples", "Samples in the history of the weights. After a kill it goes back to the last checkpoint."),
    Described("epoch", "Passes over the training data, a fraction included."),
    Described("loss", "Mean loss of the ranks at the newest logged step."),
    Described("images_per_second", "Images per second of all ranks since the logged step before.", "images_per_second"),
    Described("checkpoint_timestamp_seconds", "Time of the newest complete checkpoint of this start.", "seconds"),
)
COUNTERS = (
    Described("restarts", "Starts of the run after its first, rescales included."),
    Described("rescales", "Starts of the run with another number of ranks than before."),
    Described("checkpoint_stall_seconds", "Time for which checkpoints have held the training up.", "seconds"),
)
CHECKPOINT_WRITE = Described("checkpoint_write_seconds", "Time from the copy of a state to its checkpoint.", "seconds")
# Metrics that each rank has, with the label `rank`. The counters start at 0 in each process.
COUNTERS_OF_RANKS = (
    Described("trained_samples", "Samples that the rank has trained on, those of steps lost in a kill included."),
    Described("input_wait_seconds", "Time for which the rank has waited for its next batch.", "seconds"),
    Described(
        "allreduce_wait_seconds",
        "Time for which the rank has waited for the averages of the gradients after its own were computed.",
        "seconds",
    ),
)
STEP_TIME = Described("step_seconds", "Time of the rank's steps.", "seconds")


def families(ranks: Sequence[Figures]) -> Iterator[Metric]:
    """Return the metrics of a pod's ranks. If no rank has a figure for a metric, the metric is left out."""
    for rank in ranks:
        if rank.of_run:
            yield from _of_run(rank)
    yield from _of_ranks(ranks)


def _of_run(figures: Figures) -> Iterator[Metric]:
    found = dict(figures.of_run)
    yield InfoMetricFamily(PREFIX + INFO.name, INFO.help, value=figures.info)
    for name, text, unit in GAUGES:
        if name in found:
            yield GaugeMetricFamily(PREFIX + name, text, value=found[name], unit=unit)
    for name, text, unit in COUNTERS:
        if name in found:
            yield CounterMetricFamily(PREFIX + name, text, value=found[name], unit=unit)
    if "checkpoint_writes" in found:
        name, text, unit = CHECKPOINT_WRITE
        count = int(found["checkpoint_writes"])
        yield SummaryMetricFamily(PREFIX + name, text, count_value=count, sum_value=found[name], unit=unit)


def _of_ranks(ranks: Sequence[Figures]) -> Iterator[Metric]:
    for name, text, unit in COUNTERS_OF_RANKS:
        counter = CounterMetricFamily(PREFIX + name, text, labels=["rank"], unit=unit)
        for rank in ranks:
            if name in rank.of_rank:
                counter.add_metric([str(rank.rank)], rank.of_rank[name])
        if counter.samples:
            yield counter
    times = HistogramMetricFamily(PREFIX + STEP_TIME.name, STEP_TIME.help, labels=["rank"], unit=STEP_TIME.unit)
    for rank in ranks:
        counts = itertools.accumulate(rank.steps_per_bucket)
        limits = [*map(str, BUCKETS), "+Inf"]
        buckets = list(zip(limits, counts, strict=True))
        if STEP_TIME.name in rank.of_rank:
            times.add_metric([str(rank.rank)], buckets, rank.of_rank[STEP_TIME.name])
    if times.samples:
        yield times
