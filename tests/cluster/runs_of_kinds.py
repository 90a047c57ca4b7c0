"""Start long runs of every kind of job, with the same values except for the kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.paths import CHART
from tests.cluster.testbed import VALUES, Namespace, settings
from tests.cluster.training import LONG, RESUMED, SLOW, STOPPED, head, live_pod, wait_for_checkpoint


@dataclass(frozen=True)
class Kind:
    """A kind of job: its values file and framework, kubectl's name for it, and the role that logs the progress."""

    file: str
    framework: str
    resources: str
    speaker: str
    values: dict[str, Any]

    def settings(self, on_s3: list[str], **more: Any) -> list[str]:
        """Return Helm's arguments to install a run of two workers that trains for a long time on CPUs."""
        return ["-f", str(VALUES / self.file), *on_s3, *settings(self.long_run(**more))]

    def long_run(self, **more: Any) -> dict[str, Any]:
        """Return the values (path -> value) of a run of two workers that trains for a long time on CPUs."""
        usual = {
            "framework": self.framework,
            "image.repository": f"distrain/{self.framework}",
            "workers.gpus": 0,
            "workers.replicas": 2,
            "job.maxRestarts": 50,
        }
        return {**usual, **LONG, **self.values, **more}


SERVERS = {"strategy": "parameter-server", "servers.replicas": 1}
MPI = {"rescale.lostWorkerTimeout": 10, **SLOW}
KINDS = {
    "elastic": Kind("mnist-pytorch-elastic.yaml", "pytorch", "pytorchjobs", "worker", {}),
    "master": Kind("mnist-pytorch.yaml", "pytorch", "pytorchjobs", "master", {}),
    "plain": Kind("mnist.yaml", "mxnet", "jobs", "launcher", {"job.kind": "Plain", **MPI}),
    "mpijob": Kind("mnist.yaml", "mxnet", "mpijobs", "launcher", MPI),
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


def uids(namespace: Namespace, kind: Kind) -> list[str]:
    """Return the uid of each job of the run. A recreated job has a new uid."""
    return sorted(job["metadata"]["uid"] for job in namespace.get(kind.resources))


def log(namespace: Namespace, kind: Kind) -> str:
    """Return the log of the pod that logs the run's progress, or "" if the pod does not exist."""
    try:
        return namespace.log(live_pod(namespace, kind.speaker)["metadata"]["name"])
    except IndexError:
        return ""


def wait_for_ranks(namespace: Namespace, kind: Kind, ranks: int, *, seconds: float) -> None:
    """Wait until the run has resumed with this number of ranks.

    Raises LabError with the state of the pods if that takes longer than `seconds`.
    """
    namespace.wait_until(
        f"{ranks} ranks",
        lambda: [found[2] for found in RESUMED.findall(log(namespace, kind))][-1:] == [str(ranks)],
        seconds=seconds,
        pause=1,
    )


def assert_live(
    namespace: Namespace, helm: Path, kind: Kind, on_s3: list[str], sizes: tuple[int, ...], *, seconds: float
) -> None:
    """Rescale a run of two workers to each size. Assert that the same job continues and that no step is lost."""
    jobs = uids(namespace, kind)

    for size in sizes:
        rescale(namespace, helm, kind, on_s3, size)
        wait_for_ranks(namespace, kind, size, seconds=seconds)
        wait_for_checkpoint(namespace, head(namespace), seconds=seconds)

    story = log(namespace, kind)
    resumed = RESUMED.findall(story)
    assert [found[1] for found in resumed] == STOPPED.findall(story)
    # In an elastic job, the first worker may train alone until the other worker has started.
    assert [found[2] for found in resumed if found[2] != "2"] == [str(size) for size in sizes]
    assert uids(namespace, kind) == jobs
