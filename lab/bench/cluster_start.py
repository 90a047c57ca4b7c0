"""Measure how long the lab takes to start when all its programs are already built."""

from __future__ import annotations

import statistics
import time

from lab.cluster import lifecycle, teardown

STARTS = 3


def main() -> None:
    """Restart the cluster a few times, and print the median."""
    starts = [_start() for _ in range(STARTS)]
    print(f"cluster ready, warm: {statistics.median(starts):.1f} s (median of {STARTS}, at most {max(starts):.1f} s)")


def _start() -> float:
    teardown.down()
    started = time.monotonic()
    lifecycle.up()
    return time.monotonic() - started
