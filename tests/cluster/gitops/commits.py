"""Commit the files that Argo CD and Flux apply: the chart and the values of a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import yaml

from lab.cluster import lifecycle
from lab.gitops.git import Repository
from lab.paths import CHART, REPOSITORY
from tests.cluster.runs_of_kinds import Kind
from tests.cluster.testbed import SECRET, Namespace, digits_on_s3
from tests.cluster.testbed import VALUES as EXAMPLES
from tests.cluster.training import CHECKPOINTS, MXNET, SECONDS_BETWEEN

VALUES = "runs/run1.yaml"
DOCS = REPOSITORY / "docs"
FOREVER = 10_000_000
# The lab has 8 GPUs, so this many workers with one GPU each do not fit.
TOO_MANY = 9


def run_values(replicas: int, steps: int = FOREVER) -> str:
    """Return a values file: docs/run1.yaml with MXNet, one GPU per worker, and checkpoints in the lab's S3 server."""
    values = yaml.safe_load((DOCS / "run1.yaml").read_text(encoding="utf-8"))
    own: dict[str, Any] = {
        # MXNet starts faster than TensorFlow.
        "framework": MXNET["framework"],
        "image": {"repository": MXNET["image.repository"]},
        "workers": {"replicas": replicas, "gpus": 1},
        "trainer": {"steps": steps, "logEvery": 1},
        "checkpoint": {"uri": CHECKPOINTS, "every": SECONDS_BETWEEN},
        "s3": {"endpoint": lifecycle.s3_server().endpoint, "secretName": SECRET},
        # With this cycle time, Horovod looks for work only ten times a second, so a waiting run uses almost no
        # processor time.
        "mpi": {"env": {"HOROVOD_CYCLE_TIME": "100"}},
    }
    return yaml.safe_dump({**values, **own})


def kind_values(kind: Kind, **more: Any) -> str:
    """Return a values file for a job of this kind.

    It reads the digits from the lab's S3 server and trains longer than any test takes.
    """
    values: dict[str, Any] = yaml.safe_load((EXAMPLES / kind.file).read_text(encoding="utf-8"))
    for path, value in {**digits_on_s3(), **kind.long_run(**more)}.items():
        *sections, key = path.split(".")
        section = values
        for name in sections:
            section = section.setdefault(name, {})
        section[key] = value
    return yaml.safe_dump(values)


def repository_with_chart(name: str) -> Repository:
    """Create a git repository whose folder contains the chart's files. The files are not committed yet."""
    repository = Repository.new(name)
    shutil.copytree(CHART, repository.folder / "charts" / "distrain")
    return repository


def manifest(
    path: str, namespace: Namespace, repositories: Sequence[Repository] = (), registry: str = ""
) -> dict[str, Any]:
    """Return an example from docs/ with this namespace, the URLs of these git repositories and this registry's host."""
    text = (DOCS / path).read_text(encoding="utf-8").replace("registry.example.com", registry)
    for repository in repositories:
        text = text.replace(f"https://git.example.com/team/{repository.name}.git", repository.url)
    assert "example.com" not in text
    found: dict[str, Any] = yaml.safe_load(text.replace(": team\n", f": {namespace.name}\n"))
    return found


def job(namespace: Namespace) -> str:
    """Return the uid of the namespace's only job."""
    (found,) = namespace.get("mpijobs")
    return str(found["metadata"]["uid"])
