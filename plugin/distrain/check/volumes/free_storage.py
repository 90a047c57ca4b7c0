"""Find the free storage that CSI drivers report for the new volumes of a job."""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.check.dependencies import Dependencies
from distrain.check.volumes.own_claims import is_made, manifest_claims, own_claims
from distrain.scheduler.storage_room import StorageRoom
from distrain.scheduler.volume_binding import class_of, is_bound
from distrain.scheduler.volume_restrictions import claims_of
from distrain.workload.manifest import Job

DELAYED = "WaitForFirstConsumer"


def room_of(storage_class: kube.StorageClass, objects: Dependencies) -> StorageRoom:
    """Return the free storage that the class's driver reports.

    The result is empty if there is no report or none could be read.
    """
    if not _reports(storage_class, objects) or objects.capacities is None:
        return StorageRoom()
    name = storage_class.metadata.name
    return StorageRoom(tuple(each for each in objects.capacities if each.storage_class_name == name), is_told=True)


def makes_volumes(job: Job, objects: Dependencies) -> bool:
    """Tell whether a volume is created for the job only after a pod has got its node (WaitForFirstConsumer)."""
    return any(_classes(job, objects))


def needs_capacities(job: Job, objects: Dependencies) -> bool:
    """Tell whether one of the drivers that create volumes for the job reports its free storage."""
    return any(_reports(each, objects) for each in _classes(job, objects))


def not_judged(job: Job, objects: Dependencies) -> Iterator[str]:
    """Name what is unknown about the free storage of drivers."""
    if makes_volumes(job, objects) and objects.csi_drivers is None:
        yield "whether CSI drivers have storage left for new volumes (CSIDrivers)"
    for driver in sorted({each.provisioner for each in _classes(job, objects) if _reports(each, objects)}):
        if objects.capacities is None:
            yield f"the storage that CSI driver {driver} has left (CSIStorageCapacities)"
        else:
            yield f"whether CSI driver {driver} has storage for all volumes together: Kubernetes checks them one by one"


def _reports(storage_class: kube.StorageClass, objects: Dependencies) -> bool:
    driver = (objects.csi_drivers or {}).get(storage_class.provisioner)
    return driver is not None and driver.spec.storage_capacity is True


def _classes(job: Job, objects: Dependencies) -> Iterator[kube.StorageClass]:
    """Yield the storage classes that create volumes for the job's claims only after a pod has got its node."""
    for name in sorted(set(_class_names(job, objects))):
        found = (objects.storage_classes or {}).get(name)
        if found is not None and is_made(found) and found.volume_binding_mode == DELAYED:
            yield found


def _class_names(job: Job, objects: Dependencies) -> Iterator[str]:
    claims = {**(objects.claims or {}), **manifest_claims(job, objects)}
    for role in (role for role in job.roles if role.replicas):
        own = list(own_claims(role, objects))
        yield from (claim.spec.storage_class_name or "" for claim in own if claim.missing)
        names = [*claims_of(role.spec.volumes), *(name for claim in own for name in claim.existing)]
        yield from (class_of(claims[name]) for name in names if name in claims and not is_bound(claims[name]))
