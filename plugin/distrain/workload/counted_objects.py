"""List the objects in a manifest that quotas count, except for pods and the objects that own pods."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from distrain.kube import form
from distrain.kube.objects import Kube
from distrain.kube.resource import Resource
from distrain.workload import documents
from distrain.workload.controllers import ObjectName
from distrain.workload.created_objects import OF_CLUSTER
from distrain.workload.documents import Item

# The API versions of the kinds of objects that operators create. All other kinds are in Kubernetes' core group.
API_VERSIONS = {"Job": "batch/v1", "StatefulSet": "apps/v1"}
# For each value of HELM_DRIVER, the kind of object in which Helm records a release. With other values of HELM_DRIVER,
# Helm does not record releases in the cluster.
RECORDS = {"": "Secret", "secret": "Secret", "secrets": "Secret", "configmap": "ConfigMap", "configmaps": "ConfigMap"}
# PersistentVolumeClaims are missing here, because a quota counts their storage as well. ResourceQuotas are missing,
# because a quota also counts itself. Neither is judged here. Quotas never count objects that have no namespace.
NOT_COUNTED = {"PersistentVolumeClaim", "ResourceQuota", *OF_CLUSTER}


class CountedObject(Struct, frozen=True):
    """An object that a quota counts, the number of its node ports, and whether it needs a load balancer.

    `namespace` may be empty. `is_of_operator` means that an operator creates the object. The object is deleted together
    with its job.
    """

    resource: Resource
    namespace: str
    node_ports: int = 0
    is_balanced: bool = False
    is_of_operator: bool = False

    def in_namespaces(self, namespace: str) -> CountedObject:
        return replace(self, namespace=self.namespace or namespace)


class _Port(Kube):
    node_port: int | None = None


class _ServiceSpec(Kube):
    type: str = ""
    ports: list[_Port] | None = None
    allocate_load_balancer_node_ports: bool | None = None


class _Service(Kube):
    spec: _ServiceSpec | None = None


def of_manifest(items: Iterable[Item], origin: str, holds_pods: Callable[[Item], bool]) -> list[CountedObject]:
    """Return the manifest's objects that exist when the pods are created. Leave out objects that create pods."""
    others = [item for item in items if documents.is_made_before(item) and not holds_pods(item)]
    counted = [item for item in others if item.get("kind") not in NOT_COUNTED]
    return documents.each_of([(documents.name_of(item), item) for item in counted], origin, _counted)


def of_operator(names: Iterable[ObjectName], namespace: str) -> Iterator[CountedObject]:
    """Yield the objects of these kinds and names, which an operator creates."""
    for kind, name in names:
        yield CountedObject(Resource(API_VERSIONS.get(kind, "v1"), kind, name), namespace, is_of_operator=True)


def of_release(name: str, revision: int, history_max: int) -> Iterator[CountedObject]:
    """Yield the object in which Helm records a revision of a release.

    Yield nothing if Helm deletes an older record at the same time, because the number of objects then stays the same.
    `history_max` is the number of revisions that Helm keeps; 0 means all. Revision 0 means that the number of the next
    revision is unknown.
    """
    # Helm pkg/storage/storage.go: removeLeastRecent. Helm never deletes the record of the deployed revision.
    replaces = history_max > 0 and revision > max(history_max, 2)
    kind = record_kind()
    if kind and not replaces:
        yield CountedObject(Resource("v1", kind, f"sh.helm.release.v1.{name}.v{revision}"), "")


def record_kind() -> str | None:
    """Return the kind of object in which Helm records a revision.

    Return None if Helm records it outside of the cluster.
    """
    return RECORDS.get(os.environ.get("HELM_DRIVER", "").lower())


def _counted(item: Item) -> CountedObject:
    metadata = item.get("metadata") or {}
    resource = Resource(str(item.get("apiVersion")), str(item.get("kind")), str(metadata.get("name")))
    found = CountedObject(resource, str(metadata.get("namespace") or ""))
    if (resource.api_version, resource.kind) != ("v1", "Service"):
        return found
    spec = form.converted(item, _Service).spec or _ServiceSpec()
    return replace(found, node_ports=_node_ports(spec), is_balanced=spec.type == "LoadBalancer")


def _node_ports(spec: _ServiceSpec) -> int:
    """Return how many node ports a Service gets."""
    # Kubernetes pkg/quota/v1/evaluator/core/services.go: Usage
    ports = spec.ports or []
    if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is False:
        return sum(bool(port.node_port) for port in ports)
    return len(ports) if spec.type in ("NodePort", "LoadBalancer") else 0
