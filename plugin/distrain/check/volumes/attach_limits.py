"""Collect how many volumes of CSI drivers a job's pods need, and how many its nodes can attach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from distrain.check.dependencies import Dependencies
from distrain.check.volumes.own_claims import manifest_claims, own_claims
from distrain.kube.storage import PersistentVolumeClaim
from distrain.scheduler.node_volume_limits import (
    AttachLimits,
    VolumeNeeds,
    attachments_of,
    csi_volume,
    driver_of,
    limits_of,
)
from distrain.scheduler.volume_restrictions import claims_of
from distrain.workload.manifest import Job, PodRole


def attach_limits(job: Job, objects: Dependencies) -> AttachLimits:
    """Return the attach limits of the CSI drivers that the job uses, and the volumes that count towards these limits.

    If there are no limits, return only the volumes that the job needs.
    """
    needs = volume_needs(job, objects)
    limits = limits_of(objects.csi_nodes or (), needs)
    if not limits:
        return AttachLimits(needs=needs)
    volumes, classes = objects.volumes or {}, objects.storage_classes or {}
    claims = {
        (claim.metadata.namespace, claim.metadata.name): volume
        for claim in objects.all_claims or ()
        if (volume := csi_volume(claim, volumes, classes)) and volume[0] in limits
    }
    return AttachLimits(limits, needs, claims, attachments_of(objects.attachments or (), volumes))


def volume_needs(job: Job, objects: Dependencies) -> dict[str, VolumeNeeds]:
    """Return the CSI volumes that the pods of each role need."""
    claims = {**manifest_claims(job, objects), **(objects.claims or {})}
    return {role.name: _of_role(role, claims, objects) for role in job.roles}


def not_judged(job: Job, objects: Dependencies) -> Iterator[str]:
    """Name what the check does not know about the volumes that are attached to nodes.

    The user may have no permission to read the lists of such volumes, or the snapshot does not contain them.
    """
    needs = volume_needs(job, objects)
    if not any(each.drivers for each in needs.values()):
        return
    if objects.csi_nodes is None:
        yield "how many volumes the nodes can attach (CSINodes)"
    elif limits_of(objects.csi_nodes, needs):
        if objects.all_claims is None:
            yield "the volumes that other pods use (PersistentVolumeClaims of all namespaces)"
        if objects.attachments is None:
            yield "the volumes that stay attached after their pods (VolumeAttachments)"


def _of_role(role: PodRole, claims: Mapping[str, PersistentVolumeClaim], objects: Dependencies) -> VolumeNeeds:
    volumes, classes = objects.volumes or {}, objects.storage_classes or {}
    shared = {csi_volume(claims[name], volumes, classes) for name in claims_of(role.spec.volumes) if name in claims}
    own: Counter[str] = Counter()
    existing = set()
    for claim in own_claims(role, objects):
        known = classes.get(claim.spec.storage_class_name or "")
        drivers = {driver_of(known)} if known and known.provisioner and claim.missing else set()
        left = {volume[0] for name in claim.existing if (volume := csi_volume(claims[name], volumes, classes))}
        own.update(drivers | left)
        existing |= left
    return VolumeNeeds(role.replicas, frozenset(filter(None, shared)), own, frozenset(existing))
