"""Measure ResNet50 and VGG16 on one GPU, in bf16 and fp32. The trainer and a bare loop run alternately.

The bench needs a Python that has PyTorch: `make bench-gpu TORCH=/path/to/python3`. The bench prints one line per model
and precision, and writes all figures to the file of --json. The bench exits with 1 if the trainer reaches less than
GOAL times the bare loop's speed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from distrain_trainer.loop.images_per_second import untimed_steps

TOTAL = "total images/sec:"
GOAL = 0.98
# Peak operations per second (dense) from NVIDIA's data sheets, by the first words of the GPU's name and the precision.
# The figures for fp32 are the peaks of TF32.
PEAKS = {
    "NVIDIA A100": {"bf16": 312e12, "fp32": 156e12},
    "NVIDIA H100 80GB": {"bf16": 989.4e12, "fp32": 494.7e12},
    "NVIDIA H200": {"bf16": 989.4e12, "fp32": 494.7e12},
}
# A batch may use this share of the GPU's memory.
MEMORY_SHARE = 0.8
LARGEST_BATCH = 1024


@dataclass(frozen=True)
class Case:
    model: str
    precision: str
    batch_size: int
    steps: int

    def arguments(self) -> list[str]:
        return [f"--model={self.model}", f"--precision={self.precision}", f"--batch-size={self.batch_size}"]


@dataclass(frozen=True)
class Outcome:
    """The results of a case.

    The speeds are medians of the rounds, and `shares` says what the GPU does during a step.
    """

    model: str
    precision: str
    batch_size: int
    trainer: float
    bare: float
    # In each round, the bench divides the trainer's images per second by those of the bare loop. `ratio` is the median
    # of these quotients.
    ratio: float
    # The operations per second that the trainer makes, divided by the GPU's peak. None if the bench does not know the
    # GPU's peak.
    utilization: float | None
    shares: dict[str, float]
    # Images per second of the trainer and of the bare loop with torch.compile. Empty if the user does not ask for
    # torch.compile.
    compiled: dict[str, float]


def main() -> int:
    given = arguments()
    if importlib.util.find_spec("torch") is None:
        sys.exit(f"{sys.executable} has no PyTorch; give one that has: make bench-gpu TORCH=/path/to/python3")
    version, name, memory = device()
    print(f"{name}, {memory / 2**30:.0f} GiB, PyTorch {version}", flush=True)
    outcomes = []
    for model in given.models:
        for precision in given.precisions:
            size = given.batch_size or largest_batch(model, precision, memory)
            outcomes.append(measure(Case(model, precision, size, given.steps), given, name))
            print(line(outcomes[-1]), flush=True)
    if given.json:
        figures = {"device": name, "pytorch": version, "outcomes": [asdict(outcome) for outcome in outcomes]}
        Path(given.json).write_text(json.dumps(figures, indent=2) + "\n")
    return int(any(outcome.ratio < GOAL for outcome in outcomes))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lab.bench.gpu", description=__doc__)
    parser.add_argument("--models", nargs="+", default=["resnet50", "vgg16"])
    parser.add_argument("--precisions", nargs="+", default=["bf16", "fp32"])
    parser.add_argument("--batch-size", type=int, help="samples per step; else the largest power of 2 that fits")
    parser.add_argument("--steps", type=int, default=50, help="timed steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="measure both with torch.compile too")
    parser.add_argument("--json", help="a file for the figures")
    return parser.parse_args()


def device() -> tuple[str, str, int]:
    """Return PyTorch's version, the device's name, and the GPU's memory in bytes (0 if there is no GPU)."""
    gpu = "torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None"
    code = f"import torch; p = {gpu}; print(torch.__version__, *([p.total_memory, p.name] if p else []))"
    version, _, found = run(["-c", code]).strip().partition(" ")
    memory, _, name = found.partition(" ")
    return (version, name, int(memory)) if found else (version, f"no GPU ({platform.machine()})", 0)


def largest_batch(model: str, precision: str, memory: int) -> int:
    """Return the largest power of 2 that the GPU's memory allows as a batch size. Without a GPU, return 1.

    It is estimated from the memory that two small batches use.
    """
    if not memory:
        return 1
    small, large = (bare(Case(model, precision, size, 1))["peak_bytes"] for size in (16, 32))
    per_image = (large - small) / 16
    size = LARGEST_BATCH
    while small + per_image * (size - 16) > MEMORY_SHARE * memory:
        size //= 2
    return size


def measure(case: Case, given: argparse.Namespace, name: str) -> Outcome:
    rounds = [(trainer(case), bare(case)) for _ in range(given.rounds)]
    speed = statistics.median(ours for ours, _ in rounds)
    peak = next((peaks[case.precision] for start, peaks in PEAKS.items() if name.startswith(start)), None)
    return Outcome(
        case.model,
        case.precision,
        case.batch_size,
        trainer=speed,
        bare=statistics.median(theirs["images_per_second"] for _, theirs in rounds),
        ratio=statistics.median(ours / theirs["images_per_second"] for ours, theirs in rounds),
        utilization=speed * rounds[0][1]["operations_per_image"] / peak if peak else None,
        shares=json.loads(run(["-m", "lab.bench.gpu.shares", *of_trainer(case)]).splitlines()[-1]),
        compiled=compiled(case) if given.compile else {},
    )


def compiled(case: Case) -> dict[str, float]:
    bare_speed: float = bare(case, "--compile")["images_per_second"]
    return {"trainer": trainer(case, "--compile"), "bare loop": bare_speed}


def of_trainer(case: Case) -> list[str]:
    # The images are random noise. With a higher learning rate, the weights could become infinite.
    return ["--framework=pytorch", *case.arguments(), "--learning-rate=1e-4"]


def trainer(case: Case, *options: str) -> float:
    """Return how many images per second the trainer trains. The trainer logs at its default interval."""
    steps = case.steps
    while steps - untimed_steps(steps) < case.steps:
        steps += 1
    output = run(["-m", "distrain_trainer", *of_trainer(case), f"--steps={steps}", *options])
    return float(output.partition(TOTAL)[2].split()[0])


def bare(case: Case, *options: str) -> dict[str, Any]:
    output = run(["-m", "lab.bench.gpu.bare_loop", *case.arguments(), f"--steps={case.steps}", *options])
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures


def run(arguments: list[str]) -> str:
    """Run a Python program and return its stdout. The program's stderr goes to the terminal."""
    environment = {**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=environment).stdout


def line(outcome: Outcome) -> str:
    utilization = f"{outcome.utilization:.3f}" if outcome.utilization is not None else "unknown"
    shares = ", ".join(f"{name} {share:.3f}" for name, share in outcome.shares.items())
    compiled = "".join(f", {name} compiled {speed:.1f}" for name, speed in outcome.compiled.items())
    return (
        f"{outcome.model} {outcome.precision}, batch {outcome.batch_size}: trainer {outcome.trainer:.1f} images/s, "
        f"bare loop {outcome.bare:.1f}, ratio {outcome.ratio:.3f}, model FLOPs utilization "
        f"{utilization}; {shares}{compiled}"
    )


if __name__ == "__main__":
    sys.exit(main())
