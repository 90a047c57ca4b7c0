"""VolumeZone: compare the zone and region labels of a bound volume with those of the node."""

from __future__ import annotations

from distrain import kube
from distrain.kube.storage import PersistentVolume

# Maps the label of a volume's zone or region to the label that a node may have instead.
ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


def is_in_zone(volume: PersistentVolume, node: kube.Node) -> bool:
    """Tell whether the node is in the volume's zone.

    Return True for a node without zone labels, as the scheduler does.
    """
    found = node.metadata.labels or {}
    if not any(key in found for key in ZONES):
        return True
    wanted = {key: value for key, value in (volume.metadata.labels or {}).items() if key in ZONES}
    return all(found.get(key, found.get(ZONES[key])) in value.split("__") for key, value in wanted.items())
