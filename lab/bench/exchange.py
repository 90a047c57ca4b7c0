"""Measure how much of the gradient exchange happens during the backward pass: VGG16, two workers.

`python -m lab.bench.exchange --megabits 100 pytorch` measures PyTorch over links of 100 Mbit/s. Without arguments, the
bench measures all frameworks over links of 1 Gbit/s.

First, one worker trains alone. Its step takes `alone` seconds. Meanwhile another run keeps the second core as busy as a
second rank would. Then two workers train together, over links that tc slows down. Each step takes `together` seconds.
Over the same links, the all-reduce of `helm test` measures `exchange`: the seconds of an exchange without training. In
a ring all-reduce of K bytes among N ranks, each rank sends 2(N-1)K/N bytes. The hidden time is the part of the exchange
that overlaps with the backward pass:

    hidden = alone + exchange - together.

An exchange can be hidden only during the backward pass, so the hidden time is at most the exchange's own time, and at
most the time of the backward pass.

The backward pass is two thirds of the computation of a step. For each matrix product of the forward pass, the backward
pass computes two products: the gradient of the weights, and the gradient of the layer's input.
"""

from __future__ import annotations

import argparse
import json
import re
import sys

from lab.bench.runs import TOTAL, Runs, images_per_second
from lab.waiting import wait_until

ALL = Runs("bench-exchange")
FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
WORKERS, BATCH, STEPS = 2, 4, 8
PARAMETERS = 138_357_544
BACKWARD = 2 / 3
# The trainer can exchange a part of the gradients during the backward pass, which hides a part of the exchange's time.
# The bench fails if less than this share of the possible time is hidden.
GOAL = 0.8
RIGHT, MEBIBYTES = "all-reduce is right", 64
TEST = ["python3", "-m", "distrain_trainer.allreduce", f"--sizes={MEBIBYTES}Mi", "--repeats=5"]


def main(frameworks: list[str], rate: float) -> int:
    """Measure on a running cluster, over links of `rate` bits per second, and print a line per framework.

    Return 1 if a framework misses GOAL.
    """
    ALL.prepare(*frameworks)
    shares = [_hidden(framework, rate) for framework in frameworks]
    print(f"goal: {GOAL:.0%} of the time that can be hidden")
    return int(min(shares) < GOAL)


def _hidden(framework: str, rate: float) -> float:
    """Return how much of the exchange's time is hidden, as a fraction of the longest time that could be hidden."""
    alone, together, exchange = _alone(framework), _seconds(framework, WORKERS, rate), _exchange(framework, rate)
    possible = min(exchange, BACKWARD * alone)
    share = (alone + exchange - together) / possible
    print(
        f"{framework}, VGG16, {WORKERS} workers, {rate / 1e9:g} Gbit/s: {alone:.2f} s per step alone, {exchange:.2f} s "
        f"for the exchange, {together:.2f} s together; {share:.0%} of {possible:.2f} s hidden",
        flush=True,
    )
    return share


def _alone(framework: str) -> float:
    ALL.start("beside", {**_values(framework, 1), "trainer.steps": 1000 * STEPS})
    wait_until("a step of the run beside", lambda: "images/sec:" in ALL.logs("beside"), seconds=300, pause=1)
    found = _seconds(framework, 1)
    ALL.end("beside")
    return found


def _seconds(framework: str, workers: int, rate: float | None = None) -> float:
    """Return how many seconds a step takes."""
    log = ALL.log_of(TOTAL, _values(framework, workers), workers=workers, rate=rate, seconds=1800)
    return BATCH * workers / images_per_second(log)


def _exchange(framework: str, rate: float) -> float:
    """Return how many seconds an all-reduce of all gradients takes without training."""
    # The trainer exchanges PyTorch's gradients with DDP.
    backend = "torch" if framework == "pytorch" else "horovod"
    test = ["--set-json", f"command={json.dumps([*TEST, f'--backend={backend}'])}"]
    log = ALL.log_of(RIGHT, _values(framework, WORKERS), workers=WORKERS, rate=rate, more=test)
    microseconds = float(re.findall(rf"^ *{MEBIBYTES} MiB +([\d.]+) ", log, re.M)[0])
    return microseconds / 1e6 * 4 * PARAMETERS / (MEBIBYTES * 1024**2)


def _values(framework: str, workers: int) -> dict[str, object]:
    return {
        "framework": framework,
        "image.repository": f"distrain/{framework}",
        "workers.gpus": 0,
        "workers.replicas": workers,
        "trainer.model": "vgg16",
        "trainer.batchSize": BATCH,
        "trainer.steps": STEPS,
        "trainer.logEvery": 1,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("frameworks", nargs="*", metavar="framework", help="pytorch, tensorflow or mxnet")
    parser.add_argument("--megabits", type=float, default=1000, metavar="n", help="Mbit/s of each link (default 1000)")
    arguments = parser.parse_args()
    sys.exit(main(arguments.frameworks or list(FRAMEWORKS), arguments.megabits * 1e6))
