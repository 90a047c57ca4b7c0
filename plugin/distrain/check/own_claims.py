"""Judge the claims that each pod has for itself: those of ephemeral volumes and of a StatefulSet's templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.check.dependencies import Dependencies
from distrain.kube.storage import PersistentVolume
from distrain.scheduler.volume_binding import NO_PROVISIONER, suits
from distrain.workload.manifest import PodRole

# The annotations of the class for claims without a class.
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class OwnClaim(Struct, frozen=True):
    """A claim of which each pod of the role has one. `name` is that of the volume; `existing` are claims by name."""

    name: str
    spec: kube.ClaimSpec
    pods: int
    existing: tuple[str, ...] = ()

    @property
    def is_missing(self) -> bool:
        """Tell whether some of the pods' claims are still to be created."""
        return len(self.existing) < self.pods


def own_claims(role: PodRole, objects: Dependencies) -> Iterator[OwnClaim]:
    """Yield the claims of the role's pods, with the names of claims that an earlier StatefulSet has left."""
    for volume in role.spec.volumes or ():
        template = volume.ephemeral and volume.ephemeral.volume_claim_template
        if template:
            yield OwnClaim(volume.name, _classed(template.spec, objects), role.replicas)
    for name, spec in role.claim_templates.items():
        names = (f"{name}-{role.stateful_set}-{number}" for number in range(role.replicas))
        existing = tuple(each for each in names if each in (objects.claims or {}))
        yield OwnClaim(name, _classed(spec, objects), role.replicas, existing)


def has_volume(spec: kube.ClaimSpec, volumes: Mapping[str, PersistentVolume]) -> bool:
    """Tell whether there is a free volume for the claim."""
    return any(suits(volume, spec) for volume in volumes.values())


def is_made(storage_class: kube.StorageClass | None) -> bool:
    """Tell whether a new volume is made for a claim of this class."""
    return storage_class is not None and storage_class.provisioner not in NO_PROVISIONER


def _classed(spec: kube.ClaimSpec, objects: Dependencies) -> kube.ClaimSpec:
    """Return the claim with the default storage class, if it names none."""
    if spec.storage_class_name is not None:
        return spec
    classes = sorted((objects.storage_classes or {}).items())
    defaults = [each for _, each in classes if _is_default(each)]
    # Kubernetes takes the newest of several default classes.
    newest = max(defaults, key=lambda each: each.metadata.creation_timestamp or "", default=None)
    return replace(spec, storage_class_name=newest.metadata.name) if newest else spec


def _is_default(storage_class: kube.StorageClass) -> bool:
    return any((storage_class.metadata.annotations or {}).get(name) == "true" for name in DEFAULT_CLASS)
