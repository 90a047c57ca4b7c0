"""Run the trainer under PyTorch's profiler, and print what the device did during a step, as JSON.

The program takes the same arguments as the trainer. The program divides a step's time into four shares, which add up to
1. The shares `computing` and `copying` are the time in which the device is busy. The time in which it computes and
copies at once counts as `computing`. The share `input` is the time in which the device is idle because the trainer
waits for a batch. The share `launching` is the remaining time: the device is idle although the trainer does not wait
for a batch.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from distrain_trainer import __main__
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.watchdog import Watchdog

Interval = tuple[float, float]

# The profiler skips the first BEFORE steps, in which PyTorch compiles and chooses kernels, and then records PROFILED
# steps.
BEFORE, PROFILED = 12, 10


class Profile:
    """Starts the profiler after step BEFORE, through hooks in the trainer's loop."""

    def __init__(self) -> None:
        has_gpu = torch.cuda.is_available()
        self.activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if has_gpu else [])]
        self.device = DeviceType.CUDA if has_gpu else DeviceType.CPU
        self.profiler: Any = None
        self.steps, self.begun, self.waited = 0, 0.0, 0.0
        self.shares: dict[str, float] = {}

    def next(self, of: Any, watchdog: Watchdog, batches: Iterator[Any]) -> Any:
        begun = time.perf_counter()
        batch = of(watchdog, batches)
        self.waited += time.perf_counter() - begun
        return batch

    def step(self) -> None:
        self.steps += 1
        if self.steps == BEFORE:
            self.profiler = profile(activities=self.activities)
            self.profiler.start()
            self.begun, self.waited = time.perf_counter(), 0.0
        if self.steps == BEFORE + PROFILED:
            seconds = time.perf_counter() - self.begun
            self.profiler.stop()
            self.shares = shares(self.profiler.events(), self.device, seconds, self.waited)


def shares(events: Any, device: Any, seconds: float, waited: float) -> dict[str, float]:
    """From the profiler's events, compute how much of the profiled `seconds` each of the four shares has.

    The times of events are in microseconds.
    """
    of_device = [event for event in events if event.device_type == device]
    spans = [(event.time_range.start, event.time_range.end, event.name.startswith("Mem")) for event in of_device]
    busy = covered([(start, end) for start, end, _ in spans]) / 1e6 / seconds
    computing = covered([(start, end) for start, end, is_copy in spans if not is_copy]) / 1e6 / seconds
    idle = max(0.0, 1 - busy)
    waiting = min(idle, waited / seconds)
    return {"computing": computing, "copying": busy - computing, "input": waiting, "launching": idle - waiting}


def covered(intervals: list[Interval]) -> float:
    """Return the total length of intervals that may overlap."""
    total, last = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def main() -> None:
    profiled = Profile()
    add, of_input = Progress.add, Watchdog.next

    def add_and_count(*given: Any, **named: Any) -> None:
        add(*given, **named)
        profiled.step()

    Progress.add = add_and_count  # type: ignore[method-assign]
    Watchdog.next = lambda *given: profiled.next(of_input, *given)  # type: ignore[method-assign]
    steps = BEFORE + PROFILED
    __main__.main([*sys.argv[1:], f"--steps={steps}", f"--log-every={steps}"])
    print(json.dumps(profiled.shares))


if __name__ == "__main__":
    main()
