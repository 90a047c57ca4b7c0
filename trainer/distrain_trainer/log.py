"""What a run prints: the lines of tf_cnn_benchmarks, which people's tools already read."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

RULE = "-" * 64
HEADER = "Step\tImg/sec\ttotal_loss"
# A median has no running form: the jitter is of so many last steps.
JITTER_STEPS = 1000


@dataclass
class Log:
    """Prints the run's lines on one rank alone, and keeps them for the output's log.txt."""

    speaks: bool
    lines: list[str] = field(default_factory=list)

    def print(self, line: str) -> None:
        if self.speaks:
            print(line, flush=True)
            self.lines.append(line)

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


@dataclass
class Spread:
    """The mean and the standard error of numbers that are seen once (Welford 1962)."""

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
    """Times the steps of one rank, but for the first `untimed` ones, which also compile and warm up.

    Keeps sums, and the rates of the last few steps, so that a line costs the same after a million steps.
    """

    untimed: int
    steps: int = 0
    samples: int = 0
    global_samples: int = 0
    seconds: float = 0.0
    rates: Spread = field(default_factory=Spread)
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
        """How far the rate of a step usually lies from the median one, over the last JITTER_STEPS steps."""
        return float(1.4826 * np.median(np.abs(np.array(self.last_rates) - np.median(self.last_rates))))


def untimed_steps(steps: int) -> int:
    """Return how many first steps are left out of the rates: up to 10, as in tf_cnn_benchmarks, and fewer of few."""
    return min(10, (steps + 4) // 5) if steps > 1 else 0


def step_line(speed: Speed, loss: float) -> str:
    """Return the line of a step: this rank's mean rate, its standard error, its jitter, and the loss."""
    error, jitter = speed.rates.error, speed.jitter
    return f"{speed.steps}\timages/sec: {speed.rate:.1f} +/- {error:.1f} (jitter = {jitter:.1f})\t{loss:.3f}"


def total_lines(images_per_sec: float) -> list[str]:
    return [RULE, f"total images/sec: {images_per_sec:.2f}", RULE]
