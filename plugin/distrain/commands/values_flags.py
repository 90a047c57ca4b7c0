"""The flags that name the chart and the values: --chart, --values, --set and their like."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from distrain.errors import ValuesError
from distrain.helm.program import Source


def source_of(options: argparse.Namespace) -> Source:
    """Return the chart and the values that the arguments name."""
    chart = Path(options.chart)
    if not (chart / "Chart.yaml").is_file():
        raise ValuesError(f"--chart: {chart} is no chart's folder; name the folder that holds its Chart.yaml")
    flags = tuple(word for flag in options.value_flags for word in flag)
    stdin = sys.stdin.buffer.read() if ("--values", "-") in options.value_flags else None
    return Source(chart, flags, stdin)
