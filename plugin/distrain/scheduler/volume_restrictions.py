"""VolumeRestrictions: only one pod at a time may use a claim with access mode ReadWriteOncePod."""

from __future__ import annotations

from collections.abc import Iterable

from distrain import kube
from distrain.kube.storage import PersistentVolumeClaim

# The namespace and the name of a claim.
ClaimName = tuple[str, str]


def claims_of(volumes: Iterable[kube.Volume] | None) -> list[str]:
    """Return the names of the claims in a pod's volumes, without duplicates."""
    used = (volume.persistent_volume_claim for volume in volumes or ())
    return list(dict.fromkeys(claim.claim_name for claim in used if claim))


def is_exclusive(claim: PersistentVolumeClaim | None) -> bool:
    """Tell whether only one pod at a time may use the claim."""
    return claim is not None and "ReadWriteOncePod" in (claim.spec.access_modes or ())
