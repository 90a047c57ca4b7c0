"""Read the cluster for `doctor`.

If the user may not read a part of the cluster, the survey contains the reason instead of this part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from msgspec import Struct

from distrain import kube
from distrain.apiserver.cluster import Cluster, or_none
from distrain.check import cluster_state
from distrain.check.cluster_state import ClusterState
from distrain.doctor.rights import Right
from distrain.errors import ForbiddenError, UnreachableError
from distrain.scheduler.constraints import JobConstraints

# The plugin asks for each right in a separate request, and sends QUESTIONS requests at the same time.
QUESTIONS = 4

T = TypeVar("T")


class Unread(Struct, frozen=True):
    """A part of the survey that could not be read, and the reason."""

    why: str


class Survey(Struct, frozen=True):
    """The data of a cluster that was read for a job in one namespace.

    `kubectl_flags` are the flags that choose the cluster, without the flag for a namespace. `own` is the namespace of
    the job, or None if it does not exist. `served` lists APIs as `group/version/Kind`. `state` has the free capacity of
    the nodes. `allowed` are the requested rights that the user has.
    """

    namespace: str
    kubectl_flags: str
    version: str | Unread
    served: Sequence[str] | Unread
    deployments: Sequence[kube.Workload] | Unread
    nodes: Sequence[kube.Node] | Unread
    state: ClusterState | Unread
    storage_classes: Sequence[kube.StorageClass] | Unread
    namespaces: Sequence[kube.Named] | Unread
    own: kube.Named | Unread | None
    user: str | Unread
    allowed: frozenset[Right] | Unread


def take(
    cluster: Cluster, namespace: str, groups: Sequence[str], rights: Callable[[Sequence[str]], Sequence[Right]]
) -> Survey:
    """Read the cluster; `groups` are the API groups whose APIs are looked up.

    `rights` is called with the served APIs, and returns the rights that the API server is then asked about. Raises
    UnreachableError if the cluster does not answer. If the cluster forbids a request, no error is raised; the survey
    contains the reason.
    """

    def listed(path: str, item: type[T], what: str) -> list[T] | Unread:
        return _part(lambda: cluster.read_list(path, item, what))

    path = f"/api/v1/namespaces/{namespace}"
    try:
        version: str | Unread = cluster.version()
    except ForbiddenError as error:
        version = Unread(str(error))
    served = _part(lambda: [api for group in groups for api in cluster.served(group)])
    asked = rights([] if isinstance(served, Unread) else served)
    nodes, constraints = _part(cluster.nodes), JobConstraints(namespace)
    return Survey(
        namespace=namespace,
        kubectl_flags=cluster.target.kubectl_cluster_flags,
        version=version,
        served=served,
        deployments=listed("/apis/apps/v1/deployments", kube.Workload, "deployments of all namespaces"),
        nodes=nodes,
        state=nodes
        if isinstance(nodes, Unread)
        else _part(lambda: cluster_state.take(nodes, cluster.over_pods, constraints)),
        storage_classes=listed("/apis/storage.k8s.io/v1/storageclasses", kube.StorageClass, "storage classes"),
        namespaces=listed("/api/v1/namespaces", kube.Named, "namespaces"),
        own=_part(lambda: or_none(lambda: cluster.read_one(path, kube.Named, f"namespace {namespace}"))),
        user=_part(cluster.user),
        allowed=_part(lambda: _allowed(cluster, namespace, asked)),
    )


def _part(read: Callable[[], T]) -> T | Unread:
    try:
        return read()
    except UnreachableError as error:
        return Unread(str(error))


def _allowed(cluster: Cluster, namespace: str, rights: Sequence[Right]) -> frozenset[Right]:
    def may(right: Right) -> bool:
        return cluster.may(right.verb, right.group, right.resource, "" if right.cluster_wide else namespace)

    with ThreadPoolExecutor(QUESTIONS) as pool:
        return frozenset(right for right, allowed in zip(rights, pool.map(may, rights), strict=True) if allowed)
