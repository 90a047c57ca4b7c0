"""Provide values, prices, the output of `helm test` and records for the tests of `predict`, and read its answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distrain.derive.models import describe
from tests.plugin.program import Outcome
from tests.plugin.report import records

VALUES = """
framework: pytorch
image: {repository: example.com/distrain/pytorch, tag: "1"}
workers: {replicas: 2, gpus: 4}
trainer: {model: vgg16, batchSize: 64, steps: 3600}
"""
OWN = VALUES.replace("trainer: {model: vgg16, batchSize: 64, steps: 3600}", "command: [python3, /work/train.py]")
S3 = "data: {source: s3, uri: s3://bucket/images}\ns3: {endpoint: http://s3.example, secretName: keys}\n"
EPOCHS = VALUES.replace("steps: 3600", "epochs: 3") + S3
# With these flags, VGG16 computes 0.5 s per step, and sending its gradients of 553 MB over 44.3 Gbit/s takes 0.1 s in
# each direction.
FIXED = ("--rate", "128", "--between", "44.27", "--within", "1000000", "--latency", "0s")
PRICES = "p3.8xlarge: 12.24\n"
TEST = """\
[launcher] 2026-11-28T12:00:00Z all-reduce of float32 over 8 ranks, by horovod
     size     time/us  alg GB/s  bus GB/s
    1 KiB       120.0     0.009     0.015
   64 MiB    100000.0     0.671     1.174
all-reduce is right on 8 ranks
"""

Predict = Callable[..., Outcome]


def answer_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.code == 0, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def by_workers(answer: dict[str, Any], exchange: str = "all-reduce") -> dict[int, dict[str, Any]]:
    return {size["workers"]: size for size in answer["sizes"] if size["exchange"] == exchange}


def record(*sizes: tuple[int, float], model: str = "vgg16", batch: int = 64) -> Path:
    """Write the record of a run with several starts.

    `sizes` contains the number of ranks and the rate of each start.
    """
    return changed(*((ranks, rate, {"batch_size": batch}) for ranks, rate in sizes), model=model)


def changed(*starts: tuple[int, float, dict[str, Any]], model: str = "vgg16", parameters: int | None = None) -> Path:
    """Write the record of a run with several starts. Each start has a number of ranks, a rate and trainer arguments.

    `parameters` is the number of trainable parameters, by default that of the model with its usual images.
    """
    lines = []
    usual = describe(model).parameters.get("pytorch", records.PARAMETER_BYTES // 4)
    for number, (ranks, rate, values) in enumerate(starts):
        begin = 1000.0 * number
        settings, size = {**records.VALUES, **values}, 4 * (parameters or usual)
        lines.append(records.start(begin, ranks, step=100 * number, model=model, values=settings, parameter_bytes=size))
        for step in range(1, 11):
            figures = {"images_per_second": rate, "images_per_second_mean": rate}
            made = 100 * number + 10 * step
            lines.append(records.step(begin + 10 * step, made, made * 64, step_seconds_total=10.0 * step, **figures))
    return records.folder(Path(), lines)
