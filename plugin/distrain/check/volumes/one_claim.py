"""Judge one persistent volume claim: whether pods with it can start, and on which nodes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.admission.refusal import Refusal
from distrain.check.dependencies import Dependencies
from distrain.check.volumes.free_storage import DELAYED, room_of
from distrain.check.volumes.own_claims import OwnClaim, is_made
from distrain.kube.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from distrain.scheduler.messages import NO_PV, NOT_BOUND
from distrain.scheduler.volume_binding import (
    SELECTED_NODE,
    BoundVolume,
    UnboundVolume,
    VolumeRule,
    candidates,
    class_of,
    is_bound,
    is_reserved_for,
)
from distrain.verdict import Verdict


class Elsewhere(Struct, frozen=True):
    """A claim that only one pod uses, and whose volume may be out of reach for some nodes.

    The other pods of the role have other claims, whose volumes may be in other zones.
    """

    claim: str


# The result for one claim: where its volume can be, a message that refuses all pods, or a text that says what the check
# cannot judge.
Judged = VolumeRule | Elsewhere | Refusal | str


def existing(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> Judged:
    """Judge a claim that exists."""
    name = claim.metadata.name
    if claim.metadata.deletion_timestamp:
        step = f"{place}: persistent volume claim {name} is being deleted. Create another one."
        return refused(f'persistentvolumeclaim "{name}" is being deleted', step)
    return _bound(claim, place, objects) if is_bound(claim) else _unbound(claim, place, objects)


def of_manifest(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> Judged:
    """Judge a claim that the manifest creates, for all pods that use it."""
    what = f"persistent volume claim {claim.metadata.name}"
    return _new(claim, f"{place}: {what}", objects, claim.metadata.name)


def of_each_pod(claim: OwnClaim, place: str, objects: Dependencies, namespace: str) -> Judged:
    """Judge the claims that are created for each pod. A volume may be reserved for the claim of a single pod."""
    name = f"{claim.names.prefix}{claim.names.first}" if claim.pods == 1 and claim.names.prefix else ""
    metadata = kube.Metadata(name=claim.name, namespace=namespace)
    return _new(
        PersistentVolumeClaim(metadata, claim.spec), f"{place}: volume {claim.name}", objects, name, is_per_pod=True
    )


def reserved(claim: OwnClaim, namespace: str, objects: Dependencies) -> Iterable[BoundVolume]:
    """Some of the pods' claims do not exist yet. Yield the volumes that are reserved for these claims."""
    for volume in (objects.volumes or {}).values():
        wanted = volume.spec.claim_ref
        if wanted is None or wanted.namespace != namespace or wanted.uid or wanted.name in claim.existing:
            continue
        if wanted.name in claim.names and is_reserved_for(volume, claim.spec, wanted):
            yield BoundVolume(wanted.name, volume)


def refused(reason: str, step: str) -> Refusal:
    """Return a refusal of all pods that use the claim."""
    return Refusal(Verdict.IMPOSSIBLE, reason, step, everywhere=True)


def _bound(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> Judged:
    name, volume_name = claim.metadata.name, claim.spec.volume_name or ""
    if objects.volumes is None:
        return f"where the volume of persistent volume claim {name} can be"
    volume = objects.volumes.get(volume_name)
    if volume is None:
        lost = f"persistent volume claim {name} is bound to volume {volume_name}, which is gone"
        return refused(NO_PV, f"{place}: {lost}. Create another.")
    return BoundVolume(name, volume)


def _unbound(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> Judged:
    name, storage_class = claim.metadata.name, class_of(claim)
    if storage_class and objects.storage_classes is None:
        return f"where the volume of persistent volume claim {name} can be"
    known = (objects.storage_classes or {}).get(storage_class)
    if storage_class and known is None:
        return _without_class(f"{place}: persistent volume claim {name}", storage_class)
    if known is None or known.volume_binding_mode != DELAYED or claim.spec.volume_name:
        step = f"{place}: persistent volume claim {name} is not bound to a volume yet."
        see = f"See `kubectl {objects.kubectl_flags} describe pvc {name}`"
        return refused(NOT_BOUND, f"{step} {see}, and check again once it is bound.")
    return _delayed(claim, known, objects, claim.metadata.name)


def _new(
    claim: PersistentVolumeClaim, place: str, objects: Dependencies, reference: str = "", *, is_per_pod: bool = False
) -> Judged:
    """Judge a claim that does not exist yet. `place` names the claim and the value that asks for it."""
    name, storage_class = claim.metadata.name, class_of(claim)
    where = f"where the volume of persistent volume claim {name}, yet to be created, can be"
    if objects.storage_classes is None:
        return where
    known = objects.storage_classes.get(storage_class)
    if storage_class and known is None:
        return _without_class(place, storage_class)
    if claim.spec.volume_name:
        return _of_volume(claim, place, objects)
    if known and known.volume_binding_mode == DELAYED:
        return replace(_delayed(claim, known, objects, reference), is_per_pod=is_per_pod)
    found = candidates((objects.volumes or {}).values(), claim.spec, _reference(claim, reference))
    if len(found) == 1 and found[0].spec.claim_ref:
        return BoundVolume(name, found[0])
    if is_made(known) or found:
        return where
    step = f"{place} asks for no storage class that makes volumes, and there is no volume to bind."
    return refused(NOT_BOUND, f"{step} Name a storage class that makes volumes.")


def _of_volume(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> Judged:
    """Judge a new claim that names the volume it needs."""
    name = claim.spec.volume_name or ""
    volume = (objects.volumes or {}).get(name)
    step = "Correct the name, or create the volume"
    if volume is None:
        return refused(NOT_BOUND, f"{place} asks for persistent volume {name}, which is not there. {step}.")
    wanted = volume.spec.claim_ref
    if wanted and (wanted.namespace, wanted.name) != (claim.metadata.namespace, claim.metadata.name):
        return refused(NOT_BOUND, f"{place} asks for persistent volume {name}, which is another claim's. {step}.")
    return BoundVolume(claim.metadata.name, volume)


def _delayed(
    claim: PersistentVolumeClaim, storage_class: kube.StorageClass, objects: Dependencies, reference: str
) -> UnboundVolume:
    spec = replace(claim.spec, storage_class_name=storage_class.metadata.name)
    node = (claim.metadata.annotations or {}).get(SELECTED_NODE, "")
    # The scheduler has chosen the node for a new volume, so it does not look for an existing volume.
    volumes: Iterable[PersistentVolume] = () if node else (objects.volumes or {}).values()
    found = candidates(volumes, spec, _reference(claim, reference))
    return UnboundVolume(
        claim.metadata.name,
        spec,
        found,
        storage_class,
        room_of(storage_class, objects),
        node,
        is_reserved=any(volume.spec.claim_ref for volume in found),
    )


def _reference(claim: PersistentVolumeClaim, name: str) -> ClaimReference:
    return ClaimReference(claim.metadata.namespace, name, claim.metadata.uid)


def _without_class(what: str, storage_class: str) -> Refusal:
    step = f"{what} asks for storage class {storage_class}, which is not there. Create the class, or name another."
    return refused(f'storageclass.storage.k8s.io "{storage_class}" not found', step)
