"""Collect the objects other than pods that a manifest creates. These objects exist before the pods start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.kube.storage import PersistentVolume, PersistentVolumeClaim
from distrain.workload import documents
from distrain.workload.controllers import ObjectName

# Manifests may contain objects of these kinds. The objects have no namespace.
OF_CLUSTER = frozenset(
    (
        *("APIService", "CSIDriver", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "DeviceClass"),
        *("FlowSchema", "IngressClass", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
        *("MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume", "PriorityClass"),
        *("PriorityLevelConfiguration", "RuntimeClass", "StorageClass", "ValidatingAdmissionPolicy"),
        *("ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttributesClass"),
    )
)
# If a manifest creates objects of these kinds, `check` treats them as if they already existed in the cluster.
STORAGE: Mapping[str, type[Any]] = {
    "PersistentVolume": PersistentVolume,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "StorageClass": kube.StorageClass,
}

Named = TypeVar("Named", PersistentVolume, PersistentVolumeClaim, kube.StorageClass)


class CreatedObjects(Struct, frozen=True):
    """The objects that a manifest or an operator creates.

    Each entry of `names` has the namespace, the kind and the name of an object. The namespace is empty for objects
    without a namespace. Before `in_namespaces` is called, the namespace is also empty if the manifest names none.
    `storage` are the claims, the volumes and the storage classes.
    """

    names: frozenset[tuple[str, ObjectName]] = frozenset()
    storage: tuple[Any, ...] = ()

    def in_namespaces(self, namespace: str) -> CreatedObjects:
        """Return the objects with a namespace for each: the object's own namespace or, if it has none, `namespace`."""
        names = {(where if name[0] in OF_CLUSTER else where or namespace, name) for where, name in self.names}
        storage = tuple(_in_namespace(item, namespace) for item in self.storage)
        return CreatedObjects(frozenset(names), storage)

    def of(self, namespace: str) -> CreatedObjects:
        """Return the objects without a namespace, and the objects of this namespace."""
        names = {each for each in self.names if each[0] in ("", namespace)}
        storage = tuple(item for item in self.storage if item.metadata.namespace in ("", namespace))
        return CreatedObjects(frozenset(names), storage)

    @property
    def claim_namespaces(self) -> list[str]:
        """Return the namespaces of the claims."""
        claims = (item for item in self.storage if isinstance(item, PersistentVolumeClaim))
        return sorted({claim.metadata.namespace for claim in claims})

    def by_name(self, kind: type[Named]) -> dict[str, Named]:
        """Return the claims, the volumes or the storage classes by name."""
        return {item.metadata.name: item for item in self.storage if isinstance(item, kind)}


def key_of(item: Mapping[str, Any]) -> tuple[str, ObjectName]:
    """Return the namespace, the kind and the name of an object of a manifest."""
    metadata = item.get("metadata") or {}
    return str(metadata.get("namespace") or ""), (str(item.get("kind")), str(metadata.get("name")))


def storage_of(items: Iterable[Mapping[str, Any]], origin: str) -> tuple[Any, ...]:
    """Return the claims, volumes and storage classes of a manifest.

    Raise ValuesError if one of them does not have the form of its kind.
    """
    found = [(documents.name_of(dict(item)), item) for item in items if item.get("kind") in STORAGE]
    return tuple(documents.each_of(found, origin, _converted))


def _converted(item: Mapping[str, Any]) -> Any:
    found = documents.with_amounts(item, STORAGE[item["kind"]], "10Gi")
    if not isinstance(found, PersistentVolumeClaim):
        found.metadata.namespace = ""
    return found


def _in_namespace(item: Any, namespace: str) -> Any:
    if not isinstance(item, PersistentVolumeClaim):
        return item
    return replace(item, metadata=replace(item.metadata, namespace=item.metadata.namespace or namespace))
