"""Read the state of a run from its checkpoints in S3, which are still there when pods and logs are gone."""

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
# With these values, a run trains longer than any test takes, and saves a checkpoint every 2 s.
SECONDS_BETWEEN = 2
LONG = {
    "trainer.epochs": 100_000,
    "trainer.logEvery": 1,
    "checkpoint.uri": CHECKPOINTS,
    "checkpoint.every": SECONDS_BETWEEN,
}
# With this cycle time in milliseconds, Horovod looks for work only ten times a second, not a thousand times. A step
# then takes tens of milliseconds longer, but a run that waits uses almost no processor time.
SLOW = {"mpi.env.HOROVOD_CYCLE_TIME": "100"}

# The values that select each framework. To start, a rank with MXNet needs a third of the processor time of a rank with
# TensorFlow.
MXNET, TENSORFLOW = ({"framework": name, "image.repository": f"distrain/{name}"} for name in ("mxnet", "tensorflow"))
MPIJOB = {**MXNET, "workers.gpus": 0, **LONG, **SLOW}
# RESUMED matches the log line of a resumed run, with four groups: the checkpoint, the samples, the number of ranks, and
# the number of ranks that saved the checkpoint. STOPPED matches the log line of a stopped run, with the group samples.
RESUMED = re.compile(
    r"^(?:.*: ?)?resumed from (\S+): step \d+, (\d+) samples, on (\d+) ranks? \(saved on (\d+)\)$", re.M
)
STOPPED = re.compile(r"^(?:.*: ?)?stopped at step \d+ \((\d+) samples\)", re.M)
STEP = re.compile(r"^\d+\timages/sec: ", re.M)
FIRST_STEP = re.compile(r"^(?:.*: ?)?went on with step \d+, ")
Say = Callable[[str], None]
# The longest time for a run to grow, in seconds. A kubelet with default settings may need minutes to update the
# hostfile in the launcher's pod, and longer on a busy machine.
GROWING = 600


@dataclass(frozen=True)
class Head:
    """The content of the HEAD file: the generation of the run that wrote it, and the samples of the newest checkpoint.

    `heartbeat` is the time (Unix seconds) at which the run last wrote HEAD.
    """

    generation: int
    samples: int
    state: str
    heartbeat: float


def head(namespace: Namespace) -> Head | None:
    """Return the content of the run's HEAD, or None if HEAD does not exist."""
    s3 = lifecycle.s3_server().boto3_client()
    try:
        body = s3.get_object(Bucket=BUCKET, Key=f"checkpoints/{namespace.name}/run1/HEAD")["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    found: dict[str, Any] = json.loads(body)
    samples = int((found["checkpoint"] or "0-0").partition("-")[2])
    return Head(found["generation"], samples, found["state"], found["heartbeat"])


def remove_checkpoints(namespace: Namespace) -> None:
    """Delete the run's checkpoints, so that the next run starts from the beginning."""
    s3 = lifecycle.s3_server().boto3_client()
    # On a new lab, the bucket does not exist until the first test with S3 has run.
    with contextlib.suppress(s3.exceptions.NoSuchBucket):
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"checkpoints/{namespace.name}/")
        for item in found.get("Contents", []):
            s3.delete_object(Bucket=BUCKET, Key=item["Key"])


def wait_for_checkpoint(namespace: Namespace, after: Head | None = None, *, seconds: float = 300) -> Head:
    """Wait until the run has saved a checkpoint with more samples than `after`. Return its HEAD.

    Raises LabError with the state of the pods if that takes longer than `seconds`.
    """
    least = after.samples if after else 0

    def is_further() -> bool:
        found = head(namespace)
        return found is not None and found.samples > least

    namespace.wait_until("a checkpoint", is_further, seconds=seconds)
    found = head(namespace)
    assert found
    return found


def wait_for_restart(namespace: Namespace, before: Head, *, seconds: float = 420) -> None:
    """Wait until the ranks have restarted and have saved a checkpoint with more samples than `before`.

    Raises LabError after the time limit.
    """

    def has_begun() -> bool:
        found = head(namespace)
        return found is not None and found.generation > before.generation

    namespace.wait_until("another start of the ranks", has_begun, seconds=seconds)
    begun = head(namespace)
    assert begun is not None
    assert begun.samples >= before.samples
    wait_for_checkpoint(namespace, begun, seconds=seconds)


def live_pod(namespace: Namespace, role: str, number: int = 0) -> dict[str, Any]:
    """Return the pod of a role by its number, without counting pods that are being deleted."""
    pods = [
        pod
        for pod in namespace.get("pods")
        if pod["metadata"]["labels"].get("app.kubernetes.io/component") == role
        and pod["status"]["phase"] == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))[number]


def upgrade(namespace: Namespace, helm: Path, on_s3: list[str], values: dict[str, Any]) -> None:
    """Install or upgrade the release run1: a long MPIJob with these additional values."""
    arguments = ["-f", str(VALUES / "mnist.yaml"), *on_s3, *settings({**MPIJOB, **values})]
    done = namespace.helm(helm, "upgrade", "--install", "run1", str(CHART), *arguments)
    assert done.returncode == 0, done.stderr


def wait_for_step(namespace: Namespace, *, ranks: int, seconds: float = GROWING, pause: float = 1) -> None:
    """Wait until the run has resumed with this number of ranks and has completed a step.

    Raises LabError after the time limit.
    """

    def goes_on() -> bool:
        _, *since = re.split(r"^(?=resumed from )", namespace.launcher_log(), flags=re.M)
        return bool(since) and f", on {ranks} ranks " in since[-1] and STEP.search(since[-1]) is not None

    namespace.wait_until(f"a step of {ranks} ranks", goes_on, seconds=seconds, pause=pause)


def workers(namespace: Namespace) -> list[dict[str, Any]]:
    """Return the workers' pods, sorted by name."""
    found = namespace.get("pods -l app.kubernetes.io/component=worker")
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def rescale(namespace: Namespace, size: int) -> None:
    """Rescale with the plugin, which updates the launcher's hostfile immediately."""
    # The pods of other test processes may need the room for a while.
    rescaled = namespace.distrain("rescale", "run1", "--workers", str(size), "--yes", "--allow-busy")
    assert rescaled.returncode == 0, rescaled.stderr


def assert_no_step_was_lost(namespace: Namespace) -> None:
    """Assert in the launcher's log that the ranks always resumed at the step at which they had stopped.

    If the launcher's pod was replaced, its log begins with a resumed run. The line about the previous stop is in the
    log of the old pod, so the test cannot check it.
    """
    _, words, rest = namespace.launcher_log().partition("stopped at step ")
    log = words + rest
    resumed = [found[1] for found in RESUMED.findall(log)]
    assert resumed
    assert STOPPED.findall(log)[: len(resumed)] == resumed


def refresh_hostfile(namespace: Namespace, size: int) -> None:
    """Wait until `size` workers exist.

    Then make kubelet update the launcher's hostfile at once, as `rescale` of the plugin does.

    On its own, kubelet updates the hostfile within a minute and a half. The tests in rescale/test_rescale.py wait for
    kubelet instead.
    """
    wait_until(f"{size} workers", lambda: len(workers(namespace)) == size, pause=0.5)
    launcher = live_pod(namespace, "launcher")["metadata"]["name"]
    client.kubectl("-n", namespace.name, "annotate", "pod", launcher, "--overwrite", f"distrain.test/size={size}")


@dataclass(frozen=True)
class Line:
    """A line of a pod's log, and the time at which the pod wrote it."""

    at: datetime
    words: str


def timed_log(namespace: Namespace, selector: str = "app.kubernetes.io/component=launcher") -> list[Line]:
    """Return the log lines of the selected pods, or [] while a container is being created."""
    try:
        log = client.kubectl("-n", namespace.name, "logs", "-l", selector, "--tail=-1", "--timestamps")
    except LabError:
        return []
    # Only log lines begin with a timestamp. For a container that has just ended, kubectl may print an error message
    # instead of the log.
    parts = (line.partition(" ") for line in log.splitlines() if line[:1].isdigit())
    # The timestamps have nanoseconds, but datetime reads only microseconds.
    return [Line(datetime.fromisoformat(f"{moment[:26].rstrip('Z')}+00:00"), words) for moment, _, words in parts]


def wait_for_timed_steps(namespace: Namespace, *, seconds: float = 300) -> None:
    """Wait until the ranks that run now have logged a step. They do not log their first ten steps.

    The trainer allows an hour for the first step, and half an hour for each of the next two: these three steps compile.
    Only after these three steps does the trainer notice within a minute that a rank hangs.
    """

    def is_logged() -> bool:
        _, *starts = re.split(r"^distrain-launch: .* workers answer: ", namespace.launcher_log(), flags=re.M)
        return bool(starts) and STEP.search(starts[-1]) is not None

    namespace.wait_until("a logged step", is_logged, seconds=seconds)


def seconds_to_step(namespace: Namespace, since: datetime, *, seconds: float = 300) -> float:
    """Wait for the first step after the ranks have restarted.

    Return the seconds between `since` and this step.
    """

    def first_steps() -> list[datetime]:
        lines = timed_log(namespace, "app.kubernetes.io/instance=run1")
        return sorted(line.at for line in lines if FIRST_STEP.match(line.words) and line.at > since)

    wait_until("a step", lambda: bool(first_steps()), seconds=seconds, pause=0.5)
    return (first_steps()[0] - since).total_seconds()
