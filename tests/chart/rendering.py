"""Render the chart with Helm and return parsed YAML.

The module caches each result by its arguments, because many tests need the same results.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.builds import golang

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "distrain"
VALUES = REPOSITORY / "values"
GOLDEN = Path(__file__).parent / "golden"

Yaml = Any


ROLES = {
    "MPIJob": "mpiReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
}


ENV_OF_RANKS = ("DISTRAIN_JOB", "DISTRAIN_POD_UID", "DISTRAIN_GPUS")
# A thread holds this lock while it sends a request to the renderer and reads the answer.
_TURN = threading.Lock()


@dataclass(frozen=True)
class Rendered:
    """The output of `helm template`, as text and parsed.

    The hooks are in a separate list, because Helm does not count hooks as part of the release.
    """

    text: str
    documents: list[Yaml]
    hooks: list[Yaml]

    def find(self, kind: str, suffix: str = "") -> Yaml:
        """Return the only rendered resource of this kind whose name ends with this suffix."""
        found = [one for one in self.documents if one["kind"] == kind and one["metadata"]["name"].endswith(suffix)]
        (document,) = found
        return document

    def kinds(self) -> list[str]:
        return sorted(document["kind"] for document in self.documents)

    @property
    def job(self) -> Yaml:
        """Return the Kubeflow resource, or the workers' Job of a Plain job."""
        for document in self.documents:
            if document["kind"] in ROLES:
                return document
        return self.find("Job", "-worker")

    @property
    def is_plain(self) -> bool:
        return bool(self.job["kind"] == "Job")

    @property
    def scripts(self) -> Yaml:
        return self.find("ConfigMap", "-scripts")

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"]).removesuffix("-worker")

    @property
    def content(self) -> str:
        """Return the content hash."""
        return str(self.job["metadata"]["annotations"]["distrain/content"])

    @property
    def replicas(self) -> dict[str, Yaml]:
        """Return the replica specs of the job, keyed by role.

        For a Plain job, return the specs of its Jobs, keyed by the role names that the operators use.
        """
        if not self.is_plain:
            return dict(self.job["spec"][ROLES[self.job["kind"]]])
        jobs = {one["metadata"]["name"].rsplit("-", 1)[1]: one for one in self.documents if one["kind"] == "Job"}
        return {role.capitalize(): job["spec"] for role, job in jobs.items()}

    def pod(self, role: str) -> Yaml:
        """Return the spec of a role's pods. `role` is the operators' name of a role, such as Launcher or Worker."""
        return self.replicas[role]["template"]["spec"]

    def pods(self) -> dict[str, Yaml]:
        return {role: self.pod(role) for role in self.replicas}

    def metadata(self, role: str) -> Yaml:
        return self.replicas[role]["template"]["metadata"]

    def container(self, role: str) -> Yaml:
        (container,) = self.pod(role)["containers"]
        return container

    def env(self, role: str) -> dict[str, Yaml]:
        """Return a role's environment variables. Those that every rank has are left out; test_pods.py tests them."""
        variables = self.container(role).get("env", [])
        return {variable["name"]: variable for variable in variables if variable["name"] not in ENV_OF_RANKS}

    @property
    def program(self) -> list[str]:
        """Return the command that every rank runs."""
        args = self.container("Launcher")["args"]
        return list(args[args.index("--") + 1 :])

    @property
    def mpirun(self) -> list[str]:
        """Return mpirun's arguments, up to the program."""
        args = self.container("Launcher")["args"]
        return list(args[args.index("mpirun") + 1 : args.index("--")])


def containers(pod: Yaml) -> list[Yaml]:
    """Return the pod's init containers and containers."""
    return [*pod.get("initContainers", []), *pod["containers"]]


def render(helm: Path, *arguments: str, **options: Any) -> Rendered:
    """Render the chart. If Helm refuses the values, fail with Helm's message."""
    done = template(helm, *arguments, **options)
    assert done.returncode == 0, done.stderr
    documents: tuple[list[Yaml], list[Yaml]] = ([], [])
    for document in parse(done.stdout):
        documents["helm.sh/hook" in document["metadata"].get("annotations", {})].append(document)
    return Rendered(done.stdout, *documents)


def render_with(helm: Path, assignments: Iterable[str], **options: Any) -> Rendered:
    """Render the chart with these --set assignments."""
    return render(helm, *set_arguments(*assignments), **options)


def set_arguments(*assignments: str) -> list[str]:
    return [word for assignment in assignments for word in ("--set", assignment)]


def parse(text: str) -> list[Yaml]:
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def refusal(helm: Path, *arguments: str, **options: Any) -> str:
    """Return the message with which Helm refuses the values. If Helm accepts the values, the test fails."""
    done = template(helm, *arguments, **options)
    assert done.returncode != 0, f"rendered with {arguments}"
    return done.stderr


@functools.cache
def template(
    helm: Path, *arguments: str, release: str = "run1", chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    """Return the result of `helm template RELEASE CHART` with these arguments.

    For distrain's chart, lab/builds/go/render runs instead of Helm, because it is much faster. test_many.py checks that
    it prints the same output.
    """
    if chart != CHART:
        return run(helm, "template", release, str(chart), *arguments)
    asked = {"arguments": arguments, "release": release, "namespace": "default", "helms": [helm.name]}
    answer = ask(asked)[helm.name]
    error = f"Error: {answer['error']}\n" if "error" in answer else ""
    return subprocess.CompletedProcess([helm, *arguments], bool(error), answer.get("manifest", ""), error)


def ask(request: dict[str, Any]) -> Yaml:
    """Send one request to lab/builds/go/render and return its answer.

    The renderer resolves paths in the request relative to the working directory of this process.
    """
    stdin, stdout = _renderer().stdin, _renderer().stdout
    assert stdin is not None
    assert stdout is not None
    with _TURN:
        stdin.write(json.dumps({**request, "folder": str(Path.cwd())}) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())


@functools.cache
def _renderer() -> subprocess.Popen[str]:
    return start_renderer()


def start_renderer() -> subprocess.Popen[str]:
    """Start lab/builds/go/render on the chart.

    The program ends when its stdin is closed, which happens at the latest when this process ends.
    """
    command = [golang.binary("render"), CHART]
    # With GOGC=800, Go rarely collects garbage. Go's default would spend a fifth of the time on garbage collection, and
    # the machine has enough memory.
    environment = {**os.environ, "GOGC": "800"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


@functools.cache
def run(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real Helm, without a cluster."""
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    return subprocess.run([helm, *arguments], env=environment, capture_output=True, text=True, check=False)
