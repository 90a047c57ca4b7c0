"""A run as its checkpoints in S3 tell of it: they outlive every pod and every log."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import client, cluster
from lab.errors import LabError
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import BUCKET, VALUES, Namespace, settings

CHECKPOINTS = f"s3://{BUCKET}/checkpoints"
# What a run needs to be long enough for anything that is done to it, and to checkpoint often.
LONG = {"trainer.epochs": 100_000, "trainer.logEvery": 1, "checkpoint.uri": CHECKPOINTS, "checkpoint.every": 5}
# What rank 0 logs: the samples it stopped at; the checkpoint, its samples, the ranks now and before.
STOPPED = re.compile(r"^(?:.*: ?)?stopped at step \d+ \((\d+) samples\)", re.M)
RESUMED = re.compile(r"^(?:.*: ?)?resumed from (\S+): step \d+, (\d+) samples, on (\d+) ranks? \(before (\d+)\)$", re.M)


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


@dataclass(frozen=True)
class Kind:
    """A kind of job as a run of it is installed: its values, kubectl's name for it, and the role that logs."""

    file: str
    framework: str
    resources: str
    speaker: str
    values: dict[str, Any]

    def settings(self, on_s3: list[str], **more: Any) -> list[str]:
        """Return Helm's arguments for a long run of two workers on CPUs."""
        usual = {
            "framework": self.framework,
            "image.repository": f"distrain/{self.framework}",
            "workers.gpus": 0,
            "workers.replicas": 2,
            "rescale.lostWorkerTimeout": 10,
            "job.maxRestarts": 50,
        }
        return ["-f", str(VALUES / self.file), *on_s3, *settings({**usual, **LONG, **self.values, **more})]


SERVERS = {"strategy": "parameter-server", "servers.replicas": 1}
KINDS = {
    "elastic": Kind("mnist-pytorch-elastic.yaml", "pytorch", "pytorchjobs", "worker", {}),
    "master": Kind("mnist-pytorch.yaml", "pytorch", "pytorchjobs", "master", {}),
    "plain": Kind("mnist.yaml", "tensorflow", "jobs", "launcher", {"job.kind": "Plain"}),
    "mpijob": Kind("mnist.yaml", "tensorflow", "mpijobs", "launcher", {}),
    "mxjob": Kind("mnist-mxnet-ps.yaml", "mxnet", "mxjobs", "worker", {}),
    "tfjob": Kind("mnist.yaml", "tensorflow", "tfjobs", "chief", SERVERS),
}


def install(namespace: Namespace, helm: Path, kind: Kind, on_s3: list[str], **more: Any) -> None:
    """Install a run, or upgrade it."""
    arguments = kind.settings(on_s3, **more)
    done = namespace.helm(helm, "upgrade", "--install", "run1", str(CHART), *arguments)
    assert done.returncode == 0, done.stderr


def rescale(namespace: Namespace, helm: Path, kind: Kind, on_s3: list[str], size: int) -> None:
    install(namespace, helm, kind, on_s3, **{"workers.replicas": size})


def log(namespace: Namespace, kind: Kind) -> str:
    """Return the log of rank 0's pod, nothing while there is none."""
    try:
        name = live_pod(namespace, kind.speaker)["metadata"]["name"]
        return client.kubectl("-n", namespace.name, "logs", name)
    except (IndexError, LabError):
        return ""


def wait_for_ranks(namespace: Namespace, kind: Kind, ranks: int, *, seconds: float) -> None:
    """Wait until the run goes on with so many ranks. Raises LabError after the limit, with what its pods do."""
    try:
        wait_until(
            f"{ranks} ranks",
            lambda: [found[2] for found in RESUMED.findall(log(namespace, kind))][-1:] == [str(ranks)],
            seconds=seconds,
            pause=1,
        )
    except LabError as error:
        raise LabError(f"{error}\n{namespace.story()}") from None


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


def forget(namespace: Namespace) -> None:
    """Remove the run's checkpoints, for another run in its place."""
    s3 = cluster.s3_server().boto3_client()
    for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"checkpoints/{namespace.name}/").get("Contents", []):
        s3.delete_object(Bucket=BUCKET, Key=item["Key"])


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
