"""A run as its checkpoints in S3 tell of it: they outlive every pod and every log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lab import cluster
from lab.errors import LabError
from lab.waiting import wait_until
from tests.cluster.testbed import BUCKET, Namespace

CHECKPOINTS = f"s3://{BUCKET}/checkpoints"
# What a run needs to be long enough for anything that is done to it, and to checkpoint often.
LONG = {"trainer.epochs": 100_000, "trainer.logEvery": 1, "checkpoint.uri": CHECKPOINTS, "checkpoint.every": 5}


@dataclass(frozen=True)
class Head:
    """How far a run has come: which start of it holds the checkpoints, and the samples of the newest one."""

    generation: int
    samples: int
    state: str


def head(namespace: Namespace) -> Head | None:
    """Return what the run's HEAD says, None where there is none."""
    s3 = cluster.s3_server().boto3_client()
    try:
        body = s3.get_object(Bucket=BUCKET, Key=f"checkpoints/{namespace.name}/run1/HEAD")["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    found: dict[str, Any] = json.loads(body)
    samples = int((found["checkpoint"] or "0-0").partition("-")[2])
    return Head(found["generation"], samples, found["state"])


def wait_for_checkpoint(namespace: Namespace, after: Head | None = None, *, seconds: float = 180) -> Head:
    """Wait until the run has saved more than it had, and return how far it is.

    Raises LabError after the limit, with what its pods do.
    """
    least = after.samples if after else 0

    def is_further() -> bool:
        found = head(namespace)
        return found is not None and found.samples > least

    try:
        wait_until("a checkpoint", is_further, seconds=seconds, pause=0.5)
    except LabError as error:
        raise LabError(f"{error}\n{namespace.story()}") from None
    found = head(namespace)
    assert found
    return found
