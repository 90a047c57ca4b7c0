"""Causes for which a gang scheduler holds all pods of a run back."""

from __future__ import annotations

from tests.cluster.why.case import Case, Said
from tests.cluster.why.causes.placement import SMALLER

CASES = (
    Case(
        "gang that does not fit",
        Said(
            "Pending",
            "run1-worker-8: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu (and 9 more pods)",
            f"free nvidia.com/gpu, or {SMALLER}",
        ),
        {"gang.scheduler": "scheduler-plugins", "workers.replicas": 9, "workers.gpus": 1},
    ),
)
