"""Create records of runs for the tests of `report`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from distrain.record.read import Record, parse
from distrain.report.figures import Run, run_of

BUCKET = "reports"
# 2026-01-01 00:00:00 UTC.
BEGIN = 1767225600
# The model in these records has a million parameters.
PARAMETER_BYTES = 4_000_000
VALUES = {"framework": "pytorch", "strategy": "allreduce", "batch_size": 64, "precision": "fp32", "data": "synthetic"}


def start(seconds: float, ranks: int, *, step: int = 0, samples: int = 0, **figures: Any) -> dict[str, Any]:
    usual = {
        "framework": "pytorch",
        "model": "mnist",
        "steps": 200,
        "epoch_samples": 10_000,
        "parameter_bytes": PARAMETER_BYTES,
        "values": VALUES,
    }
    position = {"world_size": ranks, "step": step, "samples": samples}
    return {"event": "start", "unix_seconds": BEGIN + seconds, **usual, **position, **figures}


def step(seconds: float, number: int, samples: int, **figures: Any) -> dict[str, Any]:
    return {"event": "step", "unix_seconds": BEGIN + seconds, "step": number, "samples": samples, **figures}


def event(name: str, seconds: float, **figures: Any) -> dict[str, Any]:
    return {"event": name, "unix_seconds": BEGIN + seconds, **figures}


def steps(
    begin: float, ranks: int, first: int, samples: int, count: int = 10, wait: float | None = None
) -> list[dict[str, Any]]:
    """Return lines of a record, one for every tenth step.

    Each step takes 0.2 s and trains 64 samples per rank. In each step, 0.05 s are spent waiting for the input.

    `wait` is the number of seconds for which each step waits for the all-reduce, or None if this was not measured.
    """
    lines = []
    for number in range(1, count + 1):
        made, done = 10 * number, samples + 640 * ranks * number
        sums = {
            "step_seconds_total": 0.2 * made,
            "input_wait_seconds_total": 0.05 * made,
            "checkpoint_stall_seconds_total": 0.01 * made,
        }
        if wait is not None:
            sums["allreduce_wait_seconds_total"] = wait * made
        rates = dict.fromkeys(("images_per_second", "images_per_second_mean"), 320.0 * ranks)
        loss = 0.1 + 2 * math.exp(-done / 5000)
        lines.append(step(begin + 2.1 * number, first + made, done, loss=loss, **rates, **sums))
    return lines


def rescaled() -> list[dict[str, Any]]:
    """Return the record of a run that is killed while it has 2 ranks, and then finishes with 3 ranks."""
    return [
        start(0, 2),
        *steps(0, 2, 0, 0),
        event("checkpoint", 21, checkpoint="1-12800", step=100, samples=12_800, write_seconds=0.5, stall_seconds=0.02),
        event("kill", 60, step=100, samples=12_800, seen_unix_seconds=BEGIN + 21),
        event("rescale", 60, world_size=3, world_size_before=2, step=100, samples=12_800),
        start(60, 3, step=100, samples=12_800, checkpoint="1-12800"),
        *steps(60, 3, 100, 12_800),
        event("end", 82, cause="finished", exit_code=0, step=200, samples=32_000, accuracy=0.97),
    ]


def content(lines: list[dict[str, Any]]) -> bytes:
    first = {"event": "record", "version": 1, "unix_seconds": BEGIN, "writer": "me"}
    return "".join(f"{json.dumps(line)}\n" for line in [first, *lines]).encode()


def record(lines: list[dict[str, Any]]) -> Record:
    return parse(content(lines), "run1/record.jsonl")


def run(lines: list[dict[str, Any]], label: str = "run1") -> Run:
    return run_of(record(lines), label, f"s3://models/team/{label}/record.jsonl")


def folder(parent: Path, lines: list[dict[str, Any]], name: str = "run1") -> Path:
    """Write a record to a file in a folder, and return the folder."""
    made = parent / name
    made.mkdir(parents=True)
    (made / "record.jsonl").write_bytes(content(lines))
    return made
