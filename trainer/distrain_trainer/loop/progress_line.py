"""One line of JSON beside each logged step, for programs: how far the run is, how fast, and when it will have ended."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from dataclasses import asdict, dataclass, field

PREFIX = "distrain-progress: "
# The remaining time is estimated from this many of the last lines.
LINES_OF_PACE = 10


@dataclass(frozen=True, kw_only=True)
class ProgressLine:
    """The fields of the line; docs/training.md explains each. None means unknown."""

    step: int
    steps: int
    epoch: float | None
    epochs: int | None
    samples: int
    images_per_second: float
    images_per_second_mean: float
    loss: float | None
    eta_seconds: int
    checkpoint: str | None
    checkpoint_samples: int | None
    world_size: int
    unix_seconds: int

    def text(self) -> str:
        return PREFIX + json.dumps(asdict(self))


@dataclass
class Pace:
    """How fast the steps go by on the clock, with all that happens between them."""

    lines: deque[tuple[float, int, int]] = field(default_factory=lambda: deque(maxlen=LINES_OF_PACE + 1))

    def add(self, step: int, samples: int) -> None:
        """Note where the run is at a line."""
        self.lines.append((time.monotonic(), step, samples))

    def start(self, step: int, samples: int) -> None:
        """Note where the run's timed part begins."""
        self.lines.clear()
        self.add(step, samples)

    @property
    def images_per_second(self) -> float:
        """Samples of all ranks per second since the line before."""
        (before, _, fewer), (now, _, samples) = self.lines[-2], self.lines[-1]
        return (samples - fewer) / (now - before) if now > before else 0.0

    def seconds_to(self, steps: int) -> int:
        """Return the seconds until so many steps are made, at the pace of the last lines."""
        (first, made, _), (now, step, _) = self.lines[0], self.lines[-1]
        return round((steps - step) * (now - first) / (step - made)) if step > made else 0


def finite(number: float) -> float | None:
    """Return the number for JSON, which has neither infinity nor NaN."""
    return round(number, 6) if math.isfinite(number) else None
