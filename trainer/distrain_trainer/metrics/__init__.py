"""Serve metrics of the training to Prometheus, in the format OpenMetrics. docs/metrics.md describes each metric.

figures.py stores what one rank has measured. families.py turns the figures of a pod's ranks into metrics with names,
types and units. server.py answers Prometheus.
"""

from __future__ import annotations

from distrain_trainer.metrics.figures import Figures
from distrain_trainer.metrics.server import serve_metrics

__all__ = ["Figures", "serve_metrics"]
