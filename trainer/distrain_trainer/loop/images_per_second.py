"""Measure the images per second of a rank, and format the log lines that contain this rate.

The lines have the format of tf_cnn_benchmarks, which existing tools can parse.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

RULE = "-" * 64
HEADER = "Step\tImg/sec\ttotal_loss"
# The jitter is computed from the rates of the last JITTER_STEPS steps. All rates are needed, because a median cannot be
# updated with one new rate.
JITTER_STEPS = 1000


@dataclass
class RunningMean:
    """The mean and standard error of a stream of numbers (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)

    @property
    def error(self) -> float:
        return math.sqrt(self.squares) / self.count


@dataclass
class Speed:
    """Time the steps of one rank, except the first `untimed` steps, which also compile and warm up.

    Only sums and the rates of the last steps are stored, so that a log line after a million steps costs no more than
    the first one.
    """

    untimed: int
    steps: int = 0
    samples: int = 0
    global_samples: int = 0
    seconds: float = 0.0
    rates: RunningMean = field(default_factory=RunningMean)
    last_rates: deque[float] = field(default_factory=lambda: deque(maxlen=JITTER_STEPS))

    def add(self, *, samples: int, global_samples: int, seconds: float) -> None:
        self.steps += 1
        if self.steps > self.untimed:
            self.samples += samples
            self.global_samples += global_samples
            self.seconds += seconds
            self.rates.add(samples / seconds)
            self.last_rates.append(samples / seconds)

    @property
    def rate(self) -> float:
        """Images per second of this rank."""
        return self.samples / self.seconds

    @property
    def total(self) -> float:
        """Images per second of all ranks together."""
        return self.global_samples / self.seconds if self.seconds else 0.0

    @property
    def jitter(self) -> float:
        """1.4826 times the median absolute deviation of the rates of the last JITTER_STEPS steps."""
        return float(1.4826 * np.median(np.abs(np.array(self.last_rates) - np.median(self.last_rates))))


def untimed_steps(steps: int) -> int:
    """Return how many steps at the beginning are not timed.

    As in tf_cnn_benchmarks, these are 10 steps, but at most a fifth of all steps.
    """
    return min(10, (steps + 4) // 5) if steps > 1 else 0


def step_line(speed: Speed, loss: float) -> str:
    """Return the log line of a step: this rank's mean rate, the standard error and jitter of the rate, and the loss."""
    error, jitter = speed.rates.error, speed.jitter
    return f"{speed.steps}\timages/sec: {speed.rate:.1f} +/- {error:.1f} (jitter = {jitter:.1f})\t{loss:.3f}"


def total_lines(images_per_sec: float) -> list[str]:
    return [RULE, f"total images/sec: {images_per_sec:.2f}", RULE]
