"""Measure how fast the trainer trains on the embedded Kubernetes, by framework and number of workers.

All workers share two cores, so the figures show what distribution costs, not what it gains.
"""

from __future__ import annotations

from lab.bench.runs import TOTAL, Runs, images_per_second
from lab.builds import images

RUNS = Runs("bench")
WORKERS = (1, 2, 4)
STEPS = 200


def main() -> None:
    """Measure on a running cluster, and print one line per framework and number of workers."""
    RUNS.prepare(*images.FRAMEWORKS)
    for framework in images.FRAMEWORKS:
        rates = {workers: _images_per_second(framework, workers) for workers in WORKERS}
        for workers, rate in rates.items():
            told = f"{workers} workers: {rate:8.0f} images/sec ({rate / rates[1]:.2f} x 1 worker)"
            print(f"{framework}, mnist, synthetic, {told}")


def _images_per_second(framework: str, workers: int) -> float:
    values = {
        "framework": framework,
        "image.repository": f"distrain/{framework}",
        "workers.gpus": 0,
        "workers.replicas": workers,
        "trainer.model": "mnist",
        "trainer.steps": STEPS,
    }
    return images_per_second(RUNS.log_of(TOTAL, values, seconds=300))
