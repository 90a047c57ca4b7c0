"""What a run prints: the lines of tf_cnn_benchmarks, which people's tools already read."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

RULE = "-" * 64
HEADER = "Step\tImg/sec\ttotal_loss"


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
class Speed:
    """Times the steps of one rank, but for the first `untimed` ones, which also compile and warm up."""

    untimed: int
    steps: int = 0
    samples: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    global_samples: int = 0

    def add(self, *, samples: int, global_samples: int, seconds: float) -> None:
        self.steps += 1
        if self.steps > self.untimed:
            self.samples.append(samples)
            self.seconds.append(seconds)
            self.global_samples += global_samples

    @property
    def rate(self) -> float:
        """Images per second of this rank."""
        return sum(self.samples) / sum(self.seconds)

    @property
    def total(self) -> float:
        """Images per second of all ranks together."""
        return self.global_samples / sum(self.seconds) if self.seconds else 0.0


def untimed_steps(steps: int) -> int:
    """Return how many first steps are left out of the rates: up to 10, as in tf_cnn_benchmarks, and fewer of few."""
    return min(10, (steps + 4) // 5) if steps > 1 else 0


def step_line(speed: Speed, loss: float) -> str:
    """Return the line of a step: this rank's mean rate, its standard error, its jitter, and the loss."""
    rates = np.divide(speed.samples, speed.seconds)
    error = rates.std() / np.sqrt(len(rates))
    jitter = 1.4826 * np.median(np.abs(rates - np.median(rates)))
    return f"{speed.steps}\timages/sec: {speed.rate:.1f} +/- {error:.1f} (jitter = {jitter:.1f})\t{loss:.3f}"


def total_lines(images_per_sec: float) -> list[str]:
    return [RULE, f"total images/sec: {images_per_sec:.2f}", RULE]
