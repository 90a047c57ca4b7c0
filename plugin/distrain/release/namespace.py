"""Create a namespace for an installation, and delete it if the installation fails."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import Target
from distrain.errors import ForbiddenError, UnreachableError, no_namespace
from distrain.workload import kinds

# Users create objects of these kinds in a namespace. Objects of all other kinds are created with the namespace, or are
# owned by objects of these kinds.
KINDS = (
    ("v1", "pods"),
    ("v1", "configmaps"),
    ("v1", "secrets"),
    ("v1", "services"),
    ("v1", "persistentvolumeclaims"),
    ("v1", "serviceaccounts"),
    ("v1", "resourcequotas"),
    ("apps/v1", "daemonsets"),
    ("apps/v1", "deployments"),
    ("apps/v1", "replicasets"),
    ("apps/v1", "statefulsets"),
    ("batch/v1", "jobs"),
    ("batch/v1", "cronjobs"),
    *((version.api_version, kind.resource) for kind in kinds.KUBEFLOW.values() for version in kind.versions),
    ("networking.k8s.io/v1", "ingresses"),
    ("networking.k8s.io/v1", "networkpolicies"),
    ("rbac.authorization.k8s.io/v1", "roles"),
    ("rbac.authorization.k8s.io/v1", "rolebindings"),
)
# Kubernetes creates these objects in every namespace.
GIVEN = {("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")}
# distrain sets this annotation on a namespace that it has created. The annotation's value identifies the installation
# that created the namespace.
OPERATION = "distrain/operation"


class MadeNamespace(Struct, frozen=True):
    """A namespace that this program has created.

    If a namespace of the same name is created later, it has another uid.
    """

    name: str
    uid: str


def refuse_missing(cluster: Cluster, name: str) -> None:
    """Raise ValuesError if the namespace does not exist. Helm would refuse a missing namespace, too, but later."""
    try:
        is_there = cluster.has(paths.namespace(name), f"namespace {name}")
    except ForbiddenError:
        return
    if not is_there:
        raise no_namespace(name)


def make(cluster: Cluster, name: str, operation: str) -> MadeNamespace | None:
    """Create the namespace; return None if it existed already."""
    try:
        uid = cluster.create_namespace(name, {OPERATION: operation})
    except ForbiddenError:
        raise
    except UnreachableError as error:
        remove = f"`kubectl delete namespace {name}{cluster.target.kubectl_cluster_flags}`"
        state = f"namespace {name}: may have been created; try again, or remove it with {remove}"
        error.messages = (*error.messages, state)
        raise
    return MadeNamespace(name, uid) if uid else None


def remove(cluster: Cluster, made: MadeNamespace) -> str:
    """Delete the namespace unless it contains other objects. Return what was done."""
    try:
        if others := list(_others(cluster, made.name)):
            return f"namespace {made.name}: stays, as it holds {others[0]} by now"
        cluster.delete_namespace(made.name, made.uid)
    except UnreachableError as error:
        return f"{stays(made, cluster.target)}: {error}"
    return f"namespace {made.name}: deleted again"


def stays(made: MadeNamespace, target: Target) -> str:
    """Return a message that the namespace stays, and how to remove it."""
    remove = f"`kubectl delete namespace {made.name}{target.kubectl_cluster_flags}` removes it and all that is in it"
    return f"namespace {made.name}: was made for this and stays; {remove}"


def _others(cluster: Cluster, namespace: str) -> Iterator[str]:
    for api_version, plural in KINDS:
        for item in cluster.named(namespace, api_version, plural):
            if not _goes(item) and (plural, item.metadata.name) not in GIVEN:
                yield f"{plural}/{item.metadata.name}"


def _goes(item: kube.Named) -> bool:
    """Tell whether an object is being deleted, or will be deleted together with its owner."""
    return item.metadata.deletion_timestamp is not None or bool(item.metadata.owner_references)
