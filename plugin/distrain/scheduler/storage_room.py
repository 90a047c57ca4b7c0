"""VolumeBinding: find the nodes for which a CSI driver has room for a new volume, if it reports its free storage.

Kubernetes pkg/scheduler/framework/plugins/volumebinding/binder.go, hasEnoughCapacity
"""

from __future__ import annotations

from msgspec import Struct

from distrain import kube
from distrain.kube import selectors
from distrain.kube.quantities import units
from distrain.kube.storage import CSIStorageCapacity


class StorageRoom(Struct, frozen=True):
    """The free storage that the CSI driver of a storage class reports. `is_told` is true if the driver reports any."""

    capacities: tuple[CSIStorageCapacity, ...] = ()
    is_told: bool = False

    def has(self, claim: kube.ClaimSpec, storage_class: kube.StorageClass, node: kube.Node) -> bool:
        """Tell whether the driver can create the claim's volume for the node."""
        asked = claim.requests.get("storage")
        if not self.is_told or asked is None:
            return True
        size, name, labels = units("storage", asked), storage_class.metadata.name, node.metadata.labels or {}
        return any(
            each.storage_class_name == name and _largest(each) >= size and selectors.selects(each.node_topology, labels)
            for each in self.capacities
        )


def _largest(capacity: CSIStorageCapacity) -> int:
    """Return the size of the largest volume that the driver can create, or -1 if it is not known."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return -1 if limit is None else units("storage", limit)
