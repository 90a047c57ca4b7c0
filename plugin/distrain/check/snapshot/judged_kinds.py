"""List the kinds of objects that a check judges, in the order in which they are in a snapshot.

The struct of a kind has only the fields that a check judges. A snapshot leaves out all other fields of the objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.capabilities import Capabilities
from distrain.kube.definition import CustomResourceDefinition
from distrain.kube.policy import LimitRange, PriorityClass, ResourceQuota, RuntimeClass
from distrain.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from distrain.pods.pods_json import JsonPod


class JudgedKind(Struct, frozen=True):
    """A kind of object. `form` is its struct, and `plural` is its name in API paths."""

    name: str
    plural: str
    form: type[Any]
    api_version: str = "v1"
    is_namespaced: bool = False

    def path(self, namespace: str = "") -> str:
        """Return the API path that lists the objects of all namespaces, or of one namespace."""
        start = paths.namespace(namespace, self.api_version) if namespace else paths.root(self.api_version)
        return f"{start}/{self.plural}"


STORAGE = "storage.k8s.io/v1"
NODES = JudgedKind("Node", "nodes", kube.Node)
NAMESPACES = JudgedKind("Namespace", "namespaces", kube.Named)
PODS = JudgedKind("Pod", "pods", JsonPod, is_namespaced=True)
JUDGED = (
    NODES,
    NAMESPACES,
    JudgedKind("ResourceQuota", "resourcequotas", ResourceQuota, is_namespaced=True),
    JudgedKind("LimitRange", "limitranges", LimitRange, is_namespaced=True),
    JudgedKind("ServiceAccount", "serviceaccounts", kube.Named, is_namespaced=True),
    JudgedKind("PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaim, is_namespaced=True),
    JudgedKind("PersistentVolume", "persistentvolumes", PersistentVolume),
    JudgedKind("StorageClass", "storageclasses", kube.StorageClass, STORAGE),
    JudgedKind("CSINode", "csinodes", CSINode, STORAGE),
    JudgedKind("CSIDriver", "csidrivers", CSIDriver, STORAGE),
    JudgedKind("CSIStorageCapacity", "csistoragecapacities", CSIStorageCapacity, STORAGE, is_namespaced=True),
    JudgedKind("VolumeAttachment", "volumeattachments", VolumeAttachment, STORAGE),
    JudgedKind("PriorityClass", "priorityclasses", PriorityClass, "scheduling.k8s.io/v1"),
    JudgedKind("RuntimeClass", "runtimeclasses", RuntimeClass, "node.k8s.io/v1"),
    PODS,
)
# The check reads these annotations. A snapshot leaves out all other annotations.
ANNOTATIONS = frozenset(
    {
        "pv.kubernetes.io/bind-completed",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storageclass.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)


class Snapshot(Struct, rename="camel", tag_field="kind", tag="Snapshot"):
    """What `helm distrain snapshot` has read. The Snapshot is the last item of its file.

    `read` maps each kind that could be read to the namespaces that were read; the list is empty if all namespaces were
    read. For each API group in `groups`, `capabilities` lists the kinds that the cluster serves.
    """

    api_version: str = "distrain/v1"
    taken: str = ""
    read: dict[str, list[str]] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    capabilities: Capabilities | None = None

    def has(self, kind: str, namespace: str) -> bool:
        """Tell whether the file contains all objects of this kind in this namespace, or in all namespaces."""
        return kind in self.read and (not self.read[kind] or namespace in self.read[kind])


FORMS: Mapping[str, type[Any]] = {
    **{kind.name: kind.form for kind in JUDGED},
    # These kinds show which APIs the cluster serves: CustomResourceDefinition in a file that kubectl wrote, and
    # Snapshot in a file of `helm distrain snapshot`.
    "CustomResourceDefinition": CustomResourceDefinition,
    "Snapshot": Snapshot,
}
