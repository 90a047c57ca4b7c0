"""Install, rescale and remove runs as a user does, and measure each command."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml

from lab.bench.scale.client import Client, together
from lab.bench.scale.objects import objects, wait_for_pods
from lab.cluster import kwok
from lab.cluster.client import apply, kubectl
from lab.paths import CHART

Figures = dict[str, Any]

GPUS = kwok.GPUS
# Helm and Kubernetes allow names of at most this length. A host's name in a hostfile contains the names of the release
# and of the namespace, so the longest names give the largest hostfile.
RELEASE_LENGTH, NAMESPACE_LENGTH = 53, 63
# If a case has many runs, each run has this many workers.
SMALL = 2
# The values that select each kind: the framework, and job.kind if needed.
KINDS: dict[str, Figures] = {
    "MPIJob": {"framework": "tensorflow"},
    "PyTorchJob": {"framework": "pytorch"},
    "Plain": {"framework": "pytorch", "job": {"kind": "Plain"}},
}
# Each job has this many pods in addition to its workers. Pods that end before the training begins are not counted.
OTHERS = {"MPIJob": 1, "PyTorchJob": 0, "Plain": 1}


class Case(NamedTuple):
    """A number of runs in one namespace at the same time.

    Each run has `workers` workers, and each worker has GPUS GPUs.
    """

    kind: str
    workers: int
    runs: int = 1


def figures(plugin: Path, case: Case) -> Figures:
    """Measure a case in a new namespace."""
    with _namespace() as namespace, TemporaryDirectory(prefix="bench-") as folder:
        client, folder_ = Client(plugin, namespace), Path(folder)
        return _one_run(client, case, folder_) if case.runs == 1 else _many_runs(client, case, folder_)


def _one_run(client: Client, case: Case, folder: Path) -> Figures:
    name, pods, half = "r" * RELEASE_LENGTH, case.workers + OTHERS[case.kind], case.workers // 2
    values = _written(folder / "values.yaml", case.kind, workers={"replicas": case.workers, "gpus": GPUS})
    total = _written(folder / "total.yaml", case.kind, gpus=case.workers * GPUS)
    snapshot, before = folder / "snapshot.json", ["--set", f"workers.replicas={half}"]
    steps = {
        "render": client.helm("template", name, str(CHART), "-f", values),
        "snapshot": client.distrain("snapshot", output=snapshot),
        "derive": client.distrain("derive", "-f", total, "--snapshot", str(snapshot)),
        "check of a snapshot": client.distrain("check", "-f", values, "--snapshot", str(snapshot)),
        "check": client.distrain("check", "-f", values),
        "install": client.distrain("install", name, str(CHART), "-f", values, *before),
    }
    waits = {"install": wait_for_pods(client.namespace, pods - case.workers + half)}
    steps["rescale"] = client.distrain("rescale", name, "--workers", str(case.workers), "--yes")
    waits["rescale"] = wait_for_pods(client.namespace, pods)
    steps["status"] = client.distrain("status", name)
    found = objects(client.namespace)
    steps["upgrade"] = client.helm("upgrade", name, str(CHART), "--reuse-values", *before)
    waits["upgrade"] = wait_for_pods(client.namespace, pods - case.workers + half)
    steps["uninstall"] = client.helm("uninstall", name)
    waits["uninstall"] = wait_for_pods(client.namespace, 0)
    return {"steps": steps, "waits": waits, "objects": found}


def _many_runs(client: Client, case: Case, folder: Path) -> Figures:
    values = _written(folder / "values.yaml", case.kind, workers={"replicas": case.workers, "gpus": GPUS})
    pods, names = case.workers + OTHERS[case.kind], [f"run{number}" for number in range(case.runs)]
    install = [partial(client.helm, "install", name, str(CHART), "-f", values) for name in names[1:]]
    steps = {"install of all but one": together(install)}
    waits = {}
    steps["install of the last"] = client.distrain("install", names[0], str(CHART), "-f", values)
    waits["install of the last"] = wait_for_pods(client.namespace, pods * case.runs)
    steps["check of one more"] = client.distrain("check", "-f", values)
    steps["status of all"] = client.distrain("status")
    steps["status of one"] = client.distrain("status", names[0])
    found = objects(client.namespace)
    steps["uninstall"] = together(partial(client.helm, "uninstall", name) for name in names)
    waits["uninstall"] = wait_for_pods(client.namespace, 0)
    return {"steps": steps, "waits": waits, "objects": found}


def _written(path: Path, kind: str, **values: Any) -> str:
    image = {"image": {"repository": "distrain/bench"}}
    path.write_text(yaml.safe_dump({**KINDS[kind], **image, **values}), encoding="utf-8")
    return str(path)


@contextmanager
def _namespace() -> Iterator[str]:
    name = f"scale-{uuid.uuid4().hex}".ljust(NAMESPACE_LENGTH, "x")
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield name
    finally:
        # Kubernetes deletes a Job only after kubelet has reported that the Job's pods have ended. KWOK deletes pods
        # without such a report, so the namespace would stay Terminating forever. So delete the Jobs first.
        kubectl("-n", name, "delete", "jobs", "--all", "--wait=false")
        kubectl("delete", "namespace", name, "--wait=false")
