"""Render the chart with `helm template`, and return all documents, hooks included, as parsed YAML."""

from __future__ import annotations

from pathlib import Path

from tests.chart.rendering import Yaml, parse, set_arguments, template

# Names of run1's auxiliary objects, such as `run1-preflight-cb35b894`, contain this hash. The job's own objects have
# names without it.
RUN1 = "cb35b894"
HOOK = "helm.sh/hook"
WEIGHT = "helm.sh/hook-weight"
DELETE = "helm.sh/hook-delete-policy"
OUTPUT = "helm.sh/hook-output-log-policy"
# API versions that a real cluster serves. By default, `helm template` renders as if the cluster did not serve them.
SERVED = [
    "apiregistration.k8s.io/v1",
    "monitoring.coreos.com/v1/PodMonitor",
    "kubeflow.org/v2beta1/MPIJob",
    *(f"kubeflow.org/v1/{kind}" for kind in ("PyTorchJob", "MXJob", "TFJob")),
]
REAL_CLUSTER = tuple(word for version in SERVED for word in ("--api-versions", version))


def documents(helm: Path, *assignments: str, release: str = "run1", namespace: str = "team") -> list[Yaml]:
    """Render the chart for a real cluster with these --set values; fail with Helm's message if Helm refuses them.

    The chart renders hooks only for a real cluster.
    """
    done = template(helm, *REAL_CLUSTER, "--namespace", namespace, *set_arguments(*assignments), release=release)
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


def only(found: list[Yaml], kind: str, name: str = "") -> Yaml:
    """Return the only document of this kind (and name, if given)."""
    (document,) = of_kind(found, kind, name)
    return document


def of_kind(found: list[Yaml], kind: str, name: str = "") -> list[Yaml]:
    return [one for one in found if one["kind"] == kind and name in ("", one["metadata"]["name"])]


def hooks(found: list[Yaml], event: str) -> list[Yaml]:
    """Return the hooks for an event such as pre-install, in the order in which Helm creates them."""
    chosen = [one for one in found if event in annotation(one, HOOK).split(",")]
    return sorted(chosen, key=lambda one: int(annotation(one, WEIGHT)))


def annotation(document: Yaml, name: str) -> str:
    return str(document["metadata"].get("annotations", {}).get(name, ""))
