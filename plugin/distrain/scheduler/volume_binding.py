"""VolumeBinding: find the nodes that can reach the volumes of a pod's claims, whether the claims are bound or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from distrain import kube
from distrain.kube import selectors
from distrain.kube.quantities import units
from distrain.kube.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from distrain.scheduler import node_affinity
from distrain.scheduler.messages import NO_SPACE, NO_VOLUME, NODE_CONFLICT, OTHER_ZONE
from distrain.scheduler.storage_room import StorageRoom
from distrain.scheduler.volume_zone import ZONES, is_in_zone

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class BoundVolume(Struct, frozen=True):
    """The volume to which a claim is bound."""

    claim: str
    volume: PersistentVolume

    @property
    def is_somewhere(self) -> bool:
        """Tell whether the volume has a node affinity or zone labels, which may exclude some nodes."""
        return self.volume.spec.node_affinity is not None or not {*(self.volume.metadata.labels or {})}.isdisjoint(
            ZONES
        )

    def refusal(self, node: kube.Node) -> str | None:
        """Return the message of VolumeBinding or VolumeZone for the node, or None if both accept the node."""
        if not _is_reached(self.volume, node):
            return NODE_CONFLICT
        return None if is_in_zone(self.volume, node) else OTHER_ZONE


class UnboundVolume(Struct, frozen=True):
    """A claim with WaitForFirstConsumer. The claim is bound to a volume when its first pod gets a node.

    `candidates` are existing volumes: the volume that an administrator has reserved for the claim or, without a
    reservation, all free volumes that suit the claim. `node` is set if the scheduler has already chosen the node for a
    new volume. If `is_per_pod` is true, each pod has its own claim, and the rule applies to each of these claims.
    """

    claim: str
    spec: kube.ClaimSpec
    candidates: tuple[PersistentVolume, ...]
    storage_class: kube.StorageClass
    room: StorageRoom = StorageRoom()
    node: str = ""
    is_reserved: bool = False
    is_per_pod: bool = False

    @property
    def is_made(self) -> bool:
        """Tell whether the provisioner of the class can create a new volume."""
        return self.storage_class.provisioner not in NO_PROVISIONER

    @property
    def is_made_anywhere(self) -> bool:
        """Tell whether the provisioner of the class can create a new volume for every node."""
        return self.is_made and not self.storage_class.allowed_topologies and not self.room.is_told

    @property
    def is_somewhere(self) -> bool:
        """Tell whether there may be nodes that cannot reach the volume."""
        return self.is_reserved or bool(self.node) or not self.is_made_anywhere

    def refusal(self, node: kube.Node) -> str | None:
        """Return the scheduler's message if no existing volume and no new volume can be used on the node."""
        if self.node not in ("", node.metadata.name):
            return NO_VOLUME
        if any(_is_reached(volume, node) for volume in self.candidates):
            return None
        if not self.is_made or not _is_allowed(self.storage_class.allowed_topologies or (), node):
            return NO_VOLUME
        return None if self.room.has(self.spec, self.storage_class, node) else NO_SPACE


class AnyVolume(Struct, frozen=True):
    """The volumes of a role's pods, where each pod has a different volume.

    A node must reach at least one of the volumes.
    """

    volumes: tuple[BoundVolume | UnboundVolume, ...]

    def refusal(self, node: kube.Node) -> str | None:
        """If the node can use none of the volumes, return the scheduler's message for the first one, otherwise None."""
        causes = [cause for volume in self.volumes if (cause := volume.refusal(node))]
        return causes[0] if len(causes) == len(self.volumes) else None


VolumeRule = BoundVolume | UnboundVolume | AnyVolume


def refusal(node: kube.Node, rules: Iterable[VolumeRule]) -> str | None:
    """Return the scheduler's message for a node that cannot have all of the volumes, otherwise None."""
    causes = {cause for rule in rules if (cause := rule.refusal(node))}
    return next((cause for cause in (NODE_CONFLICT, NO_VOLUME, NO_SPACE, OTHER_ZONE) if cause in causes), None)


def candidates(
    volumes: Iterable[PersistentVolume], claim: kube.ClaimSpec, reference: ClaimReference
) -> tuple[PersistentVolume, ...]:
    """Return the volume that is reserved for the claim with this reference, otherwise the free volumes that suit it."""
    reserved, free = [], []
    for volume in volumes:
        if is_reserved_for(volume, claim, reference):
            reserved.append(volume)
        elif suits(volume, claim):
            free.append(volume)
    return tuple(reserved or free)


def class_of(item: PersistentVolumeClaim | PersistentVolume) -> str:
    """Return the name of the storage class of a claim or a volume, or an empty string if it has none."""
    return (item.metadata.annotations or {}).get(CLASS) or item.spec.storage_class_name or ""


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Tell whether the claim is bound to its volume."""
    return bool(claim.spec.volume_name) and BOUND in (claim.metadata.annotations or {})


def suits(volume: PersistentVolume, claim: kube.ClaimSpec) -> bool:
    """Tell whether the claim can be bound to the free volume. The volume's location is not checked."""
    spec = volume.spec
    return (
        spec.claim_ref is None
        # A file that a person wrote may lack the status.
        and (volume.status.phase or "Available") == "Available"
        and _is_large_enough(volume, claim)
        and class_of(volume) == (claim.storage_class_name or "")
        and set(claim.access_modes or ()) <= set(spec.access_modes or ())
        and (claim.selector is None or selectors.selects(claim.selector, volume.metadata.labels or {}))
    )


def is_reserved_for(volume: PersistentVolume, claim: kube.ClaimSpec, reference: ClaimReference) -> bool:
    """Tell whether an administrator has reserved the volume, by its claimRef, for the claim that `reference` names.

    For a reserved volume, Kubernetes ignores phase, class, access modes and selector
    (component-helpers/storage/volume/pv_helpers.go).
    """
    found = volume.spec.claim_ref
    if found is None or not reference.name:
        return False
    is_named = (found.namespace, found.name) == (reference.namespace, reference.name)
    return is_named and found.uid in ("", reference.uid) and _is_large_enough(volume, claim)


def _is_large_enough(volume: PersistentVolume, claim: kube.ClaimSpec) -> bool:
    """Tell whether the volume has the size and the mode that the claim needs, and is not being deleted."""
    spec = volume.spec
    asked = claim.requests.get("storage", 0)
    return (
        volume.metadata.deletion_timestamp is None
        and (spec.volume_mode or "Filesystem") == (claim.volume_mode or "Filesystem")
        and (spec.volume_attributes_class_name or "") == (claim.volume_attributes_class_name or "")
        and units("storage", (spec.capacity or {}).get("storage", 0)) >= units("storage", asked)
    )


def _is_reached(volume: PersistentVolume, node: kube.Node) -> bool:
    """Tell whether the volume's node affinity selects the node. Only the labels of the node are matched."""
    affinity = volume.spec.node_affinity
    if not (affinity and affinity.required):
        return True
    nameless = kube.Node(metadata=kube.Metadata(labels=node.metadata.labels))
    return node_affinity.selector_matches(affinity.required, nameless)


def _is_allowed(topologies: Sequence[kube.Topology], node: kube.Node) -> bool:
    """Tell whether the storage class allows the topology of the node. A class without topologies allows every node."""
    found = node.metadata.labels or {}
    return not topologies or any(
        all(found.get(each.key) in (each.values or ()) for each in topology.match_label_expressions or ())
        for topology in topologies
    )
