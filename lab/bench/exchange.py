"""Measure which share of the exchange of gradients the backward pass hides: VGG16 on two workers over 1 Gbit/s.

A step of one worker takes `alone` seconds, while another run of one worker keeps the second core as busy as a second
rank does. Then two workers train over links that tc's token bucket filter slows down, `together` seconds per step. The
all-reduce of `helm test` over the same links gives the seconds that the exchange takes by itself, for K bytes of
gradients, of which a ring sends 2(N-1)K/N. At most the shorter of exchange and backward pass can be hidden, and

    hidden = alone + exchange - together.

The backward pass is two thirds of a step: each product of the forward pass has two there, one for the gradient of the
weights and one for that of its input.
"""

from __future__ import annotations

import json
import re
import sys

from lab.bench.runs import TOTAL, Runs, images_per_second
from lab.waiting import wait_until

ALL = Runs("bench-exchange")
FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
RATE, WORKERS, BATCH, STEPS = 1e9, 2, 4, 8
PARAMETERS = 138_357_544
BACKWARD = 2 / 3
# The share of what can be hidden that the trainer shall hide.
GOAL = 0.8
RIGHT, SIZE = "all-reduce is right", 64 * 1024**2
TEST = ["python3", "-m", "distrain_trainer.allreduce", "--backend=horovod", "--sizes=64Mi", "--repeats=5"]


def main(frameworks: list[str]) -> int:
    """Measure on a running cluster, print a line per framework, and return 1 if one of them misses the goal."""
    names = frameworks or list(FRAMEWORKS)
    ALL.prepare(*names)
    shares = [_hidden(framework) for framework in names]
    print(f"goal: {GOAL:.0%} of what can be hidden")
    return int(min(shares) < GOAL)


def _hidden(framework: str) -> float:
    """Return the hidden share of what can be hidden."""
    alone, together, exchange = _alone(framework), _seconds(framework, WORKERS), _exchange(framework)
    possible = min(exchange, BACKWARD * alone)
    share = (alone + exchange - together) / possible
    print(
        f"{framework}, VGG16, {WORKERS} workers, {RATE / 1e9:g} Gbit/s: {alone:.2f} s per step alone, {exchange:.2f} s "
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


def _seconds(framework: str, workers: int) -> float:
    """Return the seconds of a step."""
    rate = RATE if workers > 1 else None
    log = ALL.log_of(TOTAL, _values(framework, workers), workers=workers, rate=rate, seconds=900)
    return BATCH * workers / images_per_second(log)


def _exchange(framework: str) -> float:
    """Return the seconds that an all-reduce of all gradients takes by itself."""
    test = ["--set-json", f"command={json.dumps(TEST)}"]
    log = ALL.log_of(RIGHT, _values(framework, WORKERS), workers=WORKERS, rate=RATE, more=test)
    microseconds = float(re.findall(rf"^ *{SIZE} +([\d.]+) ", log, re.M)[0])
    return microseconds / 1e6 * 4 * PARAMETERS / SIZE


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
    sys.exit(main(sys.argv[1:]))
