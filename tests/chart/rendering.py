"""Run Helm on the chart and give the tests parsed YAML. One run per set of arguments: many tests look at the same."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "distrain"
VALUES = REPOSITORY / "values"

Yaml = Any


@dataclass(frozen=True)
class Rendered:
    """What `helm template` printed, as text and parsed."""

    text: str
    job: Yaml
    scripts: Yaml

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    def pod(self, role: str) -> Yaml:
        """Return the spec of the role's pods; the role is Launcher or Worker."""
        return self.job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]

    def metadata(self, role: str) -> Yaml:
        return self.job["spec"]["mpiReplicaSpecs"][role]["template"]["metadata"]

    def container(self, role: str) -> Yaml:
        (container,) = self.pod(role)["containers"]
        return container

    def env(self, role: str) -> dict[str, Yaml]:
        return {variable["name"]: variable for variable in self.container(role).get("env", [])}

    @property
    def program(self) -> list[str]:
        """What every rank runs."""
        args = self.container("Launcher")["args"]
        return list(args[args.index("--") + 1 :])

    @property
    def mpirun(self) -> list[str]:
        """What mpirun gets before the program."""
        args = self.container("Launcher")["args"]
        return list(args[args.index("mpirun") + 1 : args.index("--")])


def render(helm: Path, *arguments: str, release: str = "run1", chart: Path = CHART) -> Rendered:
    """Render the chart; fail with Helm's words where it is refused."""
    done = run(helm, "template", release, str(chart), *arguments)
    assert done.returncode == 0, done.stderr
    documents = {document["kind"]: document for document in yaml.safe_load_all(done.stdout)}
    assert sorted(documents) == ["ConfigMap", "MPIJob"]
    return Rendered(done.stdout, documents["MPIJob"], documents["ConfigMap"])


def refusal(helm: Path, *arguments: str, release: str = "run1") -> str:
    """Return the words with which Helm refuses the chart; fail where it renders."""
    done = run(helm, "template", release, str(CHART), *arguments)
    assert done.returncode != 0, f"rendered with {arguments}"
    return done.stderr


@functools.cache
def run(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm without a cluster."""
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    return subprocess.run([helm, *arguments], env=environment, capture_output=True, text=True, check=False)
