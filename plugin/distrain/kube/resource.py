"""Identify an object in the Kubernetes API, and derive the plural of its kind."""

from __future__ import annotations

from msgspec import Struct


class Resource(Struct, frozen=True):
    """Identifies an object of the cluster that creates pods of the job."""

    api_version: str
    kind: str
    name: str


def plural(kind: str) -> str:
    """Return the plural of a kind in the API's paths, which is also its name in quotas."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch")) else f"{name}s"


def kubectl_type(resource: Resource) -> str:
    """Return how kubectl names an object's type, with its group: "mpijobs.kubeflow.org"."""
    group = resource.api_version.rpartition("/")[0]
    return plural(resource.kind) + (f".{group}" if group else "")
