"""Causes for which a gang scheduler places none of a run's pods."""

from __future__ import annotations

from tests.cluster.why.case import Case, Said
from tests.cluster.why.causes.placement import SMALLER

CASES = (
    Case(
        "gang that does not fit",
        Said(
            "Pending",
            "its pods start together or not at all, and lack 1 nvidia.com/gpu",
            f"free room for all pods of the run, or make it smaller with {SMALLER.partition('with ')[2]}",
        ),
        {"gang.scheduler": "scheduler-plugins", "workers.replicas": 9, "workers.gpus": 1},
    ),
)
