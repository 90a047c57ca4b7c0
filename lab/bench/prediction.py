"""`make bench-predict`: compare `helm distrain predict` with real runs of two workers over slow networks on the lab.

A prediction needs the speed of a single worker. To measure this speed, one worker trains while another run keeps the
second core as busy as a second rank would. Then tc limits the workers' links to three rates, one after the other. At
each rate, the all-reduce of `helm test` measures the bandwidth and latency between the workers. For each rate, the
bench compares the median prediction (from five tests) with the median speed of five real runs. The bench exits with 1
if a prediction is wrong by more than 10 %.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from lab.bench.runs import TOTAL, Runs, images_per_second, settings
from lab.builds.golang import binary
from lab.paths import REPOSITORY
from lab.waiting import wait_until

ALL = Runs("bench-predict")
RATES = (100e6, 50e6, 25e6)
RUNS, STEPS, WORKERS, BATCH = 5, 100, 2, 64
WITHIN = 0.10
RIGHT = "all-reduce is right"
# This is the command of `helm test` with messages that are small enough for the slowest link.
TEST = ["python3", "-m", "distrain_trainer.allreduce", "--backend=horovod", "--sizes=1Ki,64Ki,4Mi", "--repeats=5"]
# The option --deterministic makes each rank compute on one core. The prediction assumes a ring, so these settings make
# Open MPI use its ring algorithm.
VALUES = {
    "framework": "tensorflow",
    "image.repository": "distrain/tensorflow",
    "workers.gpus": 0,
    "trainer.model": "mnist",
    "trainer.extraArgs": "{--deterministic}",
    "trainer.batchSize": str(BATCH),
    "trainer.steps": str(STEPS),
    "mpi.mca.coll_tuned_use_dynamic_rules": "1",
    "mpi.mca.coll_tuned_allreduce_algorithm": "4",
}


def main() -> int:
    """Measure on a running cluster, and print one line per rate.

    Return 1 if a prediction is wrong by more than WITHIN.
    """
    ALL.prepare("tensorflow")
    alone = _rate_of_one()
    print(f"one worker: {alone:.0f} images/sec, the median of {RUNS} runs", flush=True)
    misses = [_compared(rate, alone) for rate in RATES]
    return int(max(misses) > WITHIN)


def _rate_of_one() -> float:
    """Return the images/sec of one worker while another run keeps the second core busy."""
    ALL.start("beside", {**_values(1), "trainer.steps": 1000 * STEPS})
    wait_until("a step of the run beside", lambda: "images/sec:" in ALL.logs("beside"), seconds=120, pause=0.5)
    found = median(_measured(1) for _ in range(RUNS))
    ALL.end("beside")
    return found


def _compared(rate: float, alone: float) -> float:
    """Print the measured and the predicted images/sec at this rate. Return the relative error."""
    test = ["--set-json", f"command={json.dumps(TEST)}"]
    tests = [ALL.log_of(RIGHT, _values(WORKERS), workers=WORKERS, rate=rate, more=test) for _ in range(RUNS)]
    predicted = [_predicted(each, alone) for each in tests]
    measured = [_measured(WORKERS, rate) for _ in range(RUNS)]
    error = median(predicted) / median(measured) - 1
    told = f"{_spread(measured)} images/sec measured, {_spread(predicted)} predicted"
    print(f"{rate / 1e6:g} Mbit/s: {told}, {error:+.1%}", flush=True)
    return abs(error)


def _spread(rates: Sequence[float]) -> str:
    return f"{median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"


def _predicted(test: str, alone: float) -> float:
    """Return the plugin's prediction for two workers, from the speed of one worker and the log of `helm test`."""
    flags = ["--rate", f"{alone:g}", "--test", "-", "--algorithm", "ring", "-o", "json"]
    command = [sys.executable, "-m", "distrain", "predict", *settings(_values(WORKERS)), *flags]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin"), "HELM_BIN": str(binary("helm4"))}
    answer = subprocess.run(command, input=test, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    sizes: list[dict[str, Any]] = json.loads(answer)["sizes"]
    wanted = next(size for size in sizes if (size["workers"], size["exchange"]) == (WORKERS, "all-reduce"))
    return float(wanted["samplesPerSecond"])


def _measured(workers: int, rate: float | None = None) -> float:
    """Run the training, and return its images/sec."""
    return images_per_second(ALL.log_of(TOTAL, _values(workers), workers=workers, rate=rate))


def _values(workers: int) -> dict[str, object]:
    return {**VALUES, "workers.replicas": workers}


if __name__ == "__main__":
    sys.exit(main())
