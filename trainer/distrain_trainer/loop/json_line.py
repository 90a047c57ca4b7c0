"""After each logged step, write a line of JSON for other programs.

The line contains the run's progress, speed and remaining time.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "distrain-progress: "
# The remaining time is estimated from the last LINES_OF_THROUGHPUT log lines.
LINES_OF_THROUGHPUT = 10


def text(figures: Mapping[str, float | str | None]) -> str:
    """Return the JSON line. docs/training.md explains each of its figures. None means unknown."""
    return PREFIX + json.dumps(figures)


@dataclass
class Throughput:
    """Images per second of wall-clock time, which includes the time between steps."""

    lines: deque[tuple[float, int, int]] = field(default_factory=lambda: deque(maxlen=LINES_OF_THROUGHPUT + 1))

    def add(self, step: int, samples: int) -> None:
        """Record the position of the run at a logged step."""
        self.lines.append((time.monotonic(), step, samples))

    def start(self, step: int, samples: int) -> None:
        """Begin to time at this position, and forget all earlier positions."""
        self.lines.clear()
        self.add(step, samples)

    @property
    def images_per_second(self) -> float:
        """Samples per second of all ranks together since the previous line."""
        (before, _, fewer), (now, _, samples) = self.lines[-2], self.lines[-1]
        return (samples - fewer) / (now - before) if now > before else 0.0

    def seconds_to(self, steps: int) -> int:
        """Estimate from the speed in the last lines how many seconds remain until the run has made `steps` steps."""
        (first, made, _), (now, step, _) = self.lines[0], self.lines[-1]
        return round((steps - step) * (now - first) / (step - made)) if step > made else 0


def finite(number: float) -> float | None:
    """Round a number for JSON. Return None for infinity and NaN, which JSON does not have."""
    return round(number, 6) if math.isfinite(number) else None
