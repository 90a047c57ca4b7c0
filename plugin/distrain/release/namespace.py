"""The namespace that an installation makes, and takes away again when it fails."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import UnreachableError

# What people put into a namespace. The rest comes with it, or belongs to one of these.
KINDS = (
    ("v1", "pods"),
    ("v1", "configmaps"),
    ("v1", "secrets"),
    ("v1", "services"),
    ("v1", "persistentvolumeclaims"),
    ("v1", "serviceaccounts"),
    ("apps/v1", "deployments"),
    ("apps/v1", "statefulsets"),
    ("batch/v1", "jobs"),
    ("batch/v1", "cronjobs"),
)
# Kubernetes' own of every namespace.
GIVEN = {("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")}


class MadeNamespace(Struct, frozen=True):
    """A namespace of ours; one of the same name made later has another uid."""

    name: str
    uid: str


def make(cluster: Cluster, name: str) -> MadeNamespace | None:
    """Make the namespace; None when it was there before."""
    uid = cluster.create_namespace(name)
    return MadeNamespace(name, uid) if uid else None


def remove(cluster: Cluster, made: MadeNamespace) -> str:
    """Delete the namespace unless somebody has put something into it, and say which."""
    try:
        if others := list(_others(cluster, made.name)):
            return f"namespace {made.name}: stays, as it holds {others[0]} by now"
        cluster.delete_namespace(made.name, made.uid)
    except UnreachableError as error:
        return f"namespace {made.name}: was made for this and stays: {error}"
    return f"namespace {made.name}: deleted again"


def _others(cluster: Cluster, namespace: str) -> Iterator[str]:
    for api_version, plural in KINDS:
        for item in cluster.named(namespace, api_version, plural):
            if not _goes(item) and (plural, item.metadata.name) not in GIVEN:
                yield f"{plural}/{item.metadata.name}"


def _goes(item: kube.Named) -> bool:
    """Tell what is leaving, or goes with what owns it."""
    return item.metadata.deletion_timestamp is not None or bool(item.metadata.owner_references)
