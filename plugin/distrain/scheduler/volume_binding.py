"""VolumeBinding: find the nodes that can reach the volumes of a pod's claims, bound or not yet bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from distrain import kube
from distrain.kube import selectors
from distrain.kube.quantities import units
from distrain.kube.storage import PersistentVolume, PersistentVolumeClaim
from distrain.scheduler import node_affinity
from distrain.scheduler.messages import NO_VOLUME, NODE_CONFLICT, OTHER_ZONE
from distrain.scheduler.volume_zone import ZONES, is_in_zone

CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class BoundVolume(Struct, frozen=True):
    """The volume that a claim is bound to."""

    claim: str
    volume: PersistentVolume

    @property
    def is_somewhere(self) -> bool:
        """Tell whether some nodes may not reach the volume."""
        return self.volume.spec.node_affinity is not None or not {*(self.volume.metadata.labels or {})}.isdisjoint(
            ZONES
        )

    def refusal(self, node: kube.Node) -> str | None:
        """Return the message of VolumeBinding or VolumeZone for the node, or None when both accept it."""
        if not _is_reached(self.volume, node):
            return NODE_CONFLICT
        return None if is_in_zone(self.volume, node) else OTHER_ZONE


class UnboundVolume(Struct, frozen=True):
    """A claim with WaitForFirstConsumer: it is bound to a free or a new volume when its first pod gets a node.

    With `is_per_pod`, it stands for claims of this name, one for each pod.
    """

    claim: str
    spec: kube.ClaimSpec
    volumes: Sequence[PersistentVolume]
    storage_class: kube.StorageClass
    is_per_pod: bool = False

    def refusal(self, node: kube.Node) -> str | None:
        """Return the scheduler's message if neither a free nor a new volume is possible on the node, else None."""
        if any(suits(volume, self.spec) and _is_reached(volume, node) for volume in self.volumes):
            return None
        if self.storage_class.provisioner in NO_PROVISIONER:
            return NO_VOLUME
        return None if _is_allowed(self.storage_class.allowed_topologies or (), node) else NO_VOLUME


VolumeRule = BoundVolume | UnboundVolume


def refusal(node: kube.Node, rules: Iterable[VolumeRule]) -> str | None:
    """Return the scheduler's message for a node that cannot have all of the volumes, else None."""
    causes = {cause for rule in rules if (cause := rule.refusal(node))}
    return next((cause for cause in (NODE_CONFLICT, NO_VOLUME, OTHER_ZONE) if cause in causes), None)


def class_of(claim: PersistentVolumeClaim) -> str:
    """Return the name of the claim's storage class, empty without one."""
    return (claim.metadata.annotations or {}).get(CLASS) or claim.spec.storage_class_name or ""


def suits(volume: PersistentVolume, claim: kube.ClaimSpec) -> bool:
    """Tell whether the claim can be bound to the volume, ignoring the volume's location."""
    spec = volume.spec
    asked = ((claim.resources and claim.resources.requests) or {}).get("storage", 0)
    return (
        spec.claim_ref is None
        # A file that was written by hand may lack the status.
        and (volume.status.phase or "Available") == "Available"
        and volume.metadata.deletion_timestamp is None
        and (spec.storage_class_name or "") == (claim.storage_class_name or "")
        and (spec.volume_mode or "Filesystem") == (claim.volume_mode or "Filesystem")
        and set(claim.access_modes or ()) <= set(spec.access_modes or ())
        and units("storage", (spec.capacity or {}).get("storage", 0)) >= units("storage", asked)
        and (claim.selector is None or selectors.selects(claim.selector, volume.metadata.labels or {}))
    )


def _is_reached(volume: PersistentVolume, node: kube.Node) -> bool:
    """Tell whether the volume's node affinity selects the node; only the node's labels are matched."""
    affinity = volume.spec.node_affinity
    if not (affinity and affinity.required):
        return True
    nameless = kube.Node(metadata=kube.Metadata(labels=node.metadata.labels))
    return node_affinity.selector_matches(affinity.required, nameless)


def _is_allowed(topologies: Sequence[kube.Topology], node: kube.Node) -> bool:
    """Tell whether the storage class allows the node's topology; a class without topologies allows every node."""
    found = node.metadata.labels or {}
    return not topologies or any(
        all(found.get(each.key) in (each.values or ()) for each in topology.match_label_expressions or ())
        for topology in topologies
    )
