"""Where the volumes that a pod uses can be: the nodes that its persistent volume claims leave to it.

The rules and the words are those of kube-scheduler's filters VolumeBinding and VolumeZone, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from distrain import kube
from distrain.amounts import units
from distrain.check import admission, labels
from distrain.kube.policy import PersistentVolume

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
OTHER_ZONE = "node(s) had no available volume zone"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

# A zone's labels, the old ones with the new ones that are taken where a node lacks them.
ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class BoundVolume(Struct, frozen=True):
    """The volume that a claim is bound to."""

    claim: str
    volume: PersistentVolume

    def refusal(self, node: kube.Node) -> str | None:
        if not _is_reached(self.volume, node):
            return NODE_CONFLICT
        return None if self._is_in_zone(node) else OTHER_ZONE

    def _is_in_zone(self, node: kube.Node) -> bool:
        found = node.metadata.labels or {}
        if not any(key in found for key in ZONES):
            return True
        wanted = {key: value for key, value in (self.volume.metadata.labels or {}).items() if key in ZONES}
        return all(found.get(key, found.get(ZONES[key])) in value.split("__") for key, value in wanted.items())


class UnboundVolume(Struct, frozen=True):
    """A volume that a claim gets once its first pod has a node: one of those that are there, or a new one."""

    claim: str
    spec: kube.ClaimSpec
    volumes: Sequence[PersistentVolume]
    storage_class: kube.StorageClass

    def refusal(self, node: kube.Node) -> str | None:
        if any(suits(volume, self.spec) and _is_reached(volume, node) for volume in self.volumes):
            return None
        if self.storage_class.provisioner in NO_PROVISIONER:
            return NO_VOLUME
        return None if _is_allowed(self.storage_class.allowed_topologies or (), node) else NO_VOLUME


VolumeRule = BoundVolume | UnboundVolume


def refusal(node: kube.Node, rules: Iterable[VolumeRule]) -> str | None:
    """Return the scheduler's words for why the node cannot have all of the volumes, or None when it can."""
    causes = {cause for rule in rules if (cause := rule.refusal(node))}
    return next((cause for cause in (NODE_CONFLICT, NO_VOLUME, OTHER_ZONE) if cause in causes), None)


def _nameless(node: kube.Node) -> kube.Node:
    """Return the node without its name: a volume is matched with labels alone."""
    return kube.Node(metadata=kube.Metadata(labels=node.metadata.labels))


def _is_reached(volume: PersistentVolume, node: kube.Node) -> bool:
    affinity = volume.spec.node_affinity
    return not (affinity and affinity.required) or admission.selects(affinity.required, _nameless(node))


def claims_of(volumes: Iterable[kube.Volume] | None) -> list[str]:
    """Name the claims among a pod's volumes, each once."""
    used = (volume.persistent_volume_claim for volume in volumes or ())
    return list(dict.fromkeys(claim.claim_name for claim in used if claim))


def suits(volume: PersistentVolume, claim: kube.ClaimSpec) -> bool:
    """Tell whether a claim may be bound to the volume, wherever that is."""
    spec = volume.spec
    asked = ((claim.resources and claim.resources.requests) or {}).get("storage", 0)
    return (
        spec.claim_ref is None
        and (spec.storage_class_name or "") == (claim.storage_class_name or "")
        and (spec.volume_mode or "Filesystem") == (claim.volume_mode or "Filesystem")
        and set(claim.access_modes or ()) <= set(spec.access_modes or ())
        and units("storage", (spec.capacity or {}).get("storage", 0)) >= units("storage", asked)
        and (claim.selector is None or labels.selects(claim.selector, volume.metadata.labels or {}))
    )


def _is_allowed(topologies: Sequence[kube.Topology], node: kube.Node) -> bool:
    """Tell whether the node is in one of the topologies; without any it is."""
    found = node.metadata.labels or {}
    return not topologies or any(
        all(found.get(each.key) in (each.values or ()) for each in topology.match_label_expressions or ())
        for topology in topologies
    )
