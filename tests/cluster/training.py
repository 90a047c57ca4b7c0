"""A run as its checkpoints in S3 tell of it: they outlive every pod and every log."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.cluster import client, lifecycle
from lab.errors import LabError
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import BUCKET, VALUES, Namespace, settings

CHECKPOINTS = f"s3://{BUCKET}/checkpoints"
# What a run needs to be long enough for anything that is done to it, and to checkpoint often.
SECONDS_BETWEEN = 2
LONG = {
    "trainer.epochs": 100_000,
    "trainer.logEvery": 1,
    "checkpoint.uri": CHECKPOINTS,
    "checkpoint.every": SECONDS_BETWEEN,
}
# Horovod sums up ten times a second, not a thousand times: a run that waits for what is done to it leaves the
# processors to others, at tens of milliseconds a step.
SLOW = {"mpi.env.HOROVOD_CYCLE_TIME": "100"}

MPIJOB = {"framework": "tensorflow", "image.repository": "distrain/tensorflow", "workers.gpus": 0, **LONG, **SLOW}
# Checkpoint, samples, and the ranks now and before; and the samples at a stop.
RESUMED = re.compile(r"^(?:.*: ?)?resumed from (\S+): step \d+, (\d+) samples, on (\d+) ranks? \(before (\d+)\)$", re.M)
STOPPED = re.compile(r"^(?:.*: ?)?stopped at step \d+ \((\d+) samples\)", re.M)
STEP = re.compile(r"^\d+\timages/sec: ", re.M)
FIRST_STEP = re.compile(r"^(?:.*: ?)?went on with step \d+, ")
Say = Callable[[str], None]
# A default kubelet tells the launcher of new workers within this time.
GROWING = 240


@dataclass(frozen=True)
class Head:
    """How far a run has come: which start of it holds the checkpoints, and the samples of the newest one.

    `heartbeat` is when it was last written, in Unix seconds.
    """

    generation: int
    samples: int
    state: str
    heartbeat: float


def head(namespace: Namespace) -> Head | None:
    """Return what the run's HEAD says, None where there is none."""
    s3 = lifecycle.s3_server().boto3_client()
    try:
        body = s3.get_object(Bucket=BUCKET, Key=f"checkpoints/{namespace.name}/run1/HEAD")["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    found: dict[str, Any] = json.loads(body)
    samples = int((found["checkpoint"] or "0-0").partition("-")[2])
    return Head(found["generation"], samples, found["state"], found["heartbeat"])


def remove_checkpoints(namespace: Namespace) -> None:
    """Let the next run begin anew."""
    s3 = lifecycle.s3_server().boto3_client()
    # Of a lab that is new nobody may have wanted a bucket yet.
    with contextlib.suppress(s3.exceptions.NoSuchBucket):
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"checkpoints/{namespace.name}/")
        for item in found.get("Contents", []):
            s3.delete_object(Bucket=BUCKET, Key=item["Key"])


def wait_for_checkpoint(namespace: Namespace, after: Head | None = None, *, seconds: float = 300) -> Head:
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


def wait_for_restart(namespace: Namespace, before: Head, *, seconds: float = 420) -> None:
    """Wait until the ranks have started again and saved more than before. Raises LabError after the limit."""

    def has_begun() -> bool:
        found = head(namespace)
        return found is not None and found.generation > before.generation

    try:
        wait_until("another start of the ranks", has_begun, seconds=seconds, pause=0.5)
    except LabError as error:
        raise LabError(f"{error}\n{namespace.story()}") from None
    begun = head(namespace)
    assert begun is not None
    assert begun.samples >= before.samples
    wait_for_checkpoint(namespace, begun, seconds=seconds)


def live_pod(namespace: Namespace, role: str, number: int = 0) -> dict[str, Any]:
    """Return a role's pod that runs and is to stay, by its place among them."""
    pods = [
        pod
        for pod in namespace.get("pods")
        if pod["metadata"]["labels"].get("app.kubernetes.io/component") == role
        and pod["status"]["phase"] == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))[number]


def upgrade(namespace: Namespace, helm: Path, on_s3: list[str], values: dict[str, Any]) -> None:
    """Install or upgrade release run1 to a long MPIJob with these values on top."""
    arguments = ["-f", str(VALUES / "mnist.yaml"), *on_s3, *settings({**MPIJOB, **values})]
    done = namespace.helm(helm, "upgrade", "--install", "run1", str(CHART), *arguments)
    assert done.returncode == 0, done.stderr


def wait_for_step(namespace: Namespace, *, ranks: int, seconds: float = GROWING, pause: float = 1) -> None:
    """Wait until the run has gone on with so many ranks, and made a step. Raises LabError after the limit."""

    def goes_on() -> bool:
        _, *since = re.split(r"^(?=resumed from )", namespace.launcher_log(), flags=re.M)
        return bool(since) and f", on {ranks} ranks " in since[-1] and STEP.search(since[-1]) is not None

    try:
        wait_until(f"a step of {ranks} ranks", goes_on, seconds=seconds, pause=pause)
    except LabError as error:
        raise LabError(f"{error}\n{namespace.story()}") from None


def workers(namespace: Namespace) -> list[dict[str, Any]]:
    """Return the workers' pods in the order of their names."""
    found = namespace.get("pods -l app.kubernetes.io/component=worker")
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def rescale(namespace: Namespace, size: int) -> None:
    """Rescale with the plugin, which has the launcher see new workers at once."""
    rescaled = namespace.distrain("rescale", "run1", "--workers", str(size), "--yes")
    assert rescaled.returncode == 0, rescaled.stderr


def assert_no_step_was_lost(namespace: Namespace) -> None:
    """Hold that each start of the launcher's log went on where the one before had stopped.

    A launcher that took another's place begins with a start after a stop that the other one's log tells of.
    """
    _, words, rest = namespace.launcher_log().partition("stopped at step ")
    log = words + rest
    resumed = [found[1] for found in RESUMED.findall(log)]
    assert resumed
    assert STOPPED.findall(log)[: len(resumed)] == resumed


@dataclass(frozen=True)
class Line:
    """A line of a pod's log, and when it was written."""

    at: datetime
    words: str


def timed_log(namespace: Namespace, selector: str = "app.kubernetes.io/component=launcher") -> list[Line]:
    """Return what the pods' containers have logged, nothing where one of them is being made."""
    try:
        log = client.kubectl("-n", namespace.name, "logs", "-l", selector, "--tail=-1", "--timestamps")
    except LabError:
        return []
    # Of a container that has just gone it says in words that there is no log.
    parts = (line.partition(" ") for line in log.splitlines() if line[:1].isdigit())
    # In nanoseconds, of which Python knows a thousandth.
    return [Line(datetime.fromisoformat(f"{moment[:26].rstrip('Z')}+00:00"), words) for moment, _, words in parts]


def seconds_to_step(namespace: Namespace, since: datetime, *, seconds: float = 300) -> float:
    """Wait for the first step of the ranks that have started again since then, and return how long that took."""

    def first_steps() -> list[datetime]:
        lines = timed_log(namespace, "app.kubernetes.io/instance=run1")
        return sorted(line.at for line in lines if FIRST_STEP.match(line.words) and line.at > since)

    wait_until("a step", lambda: bool(first_steps()), seconds=seconds, pause=0.5)
    return (first_steps()[0] - since).total_seconds()
