"""Find the claims that belong to a single pod: those of ephemeral volumes and of a StatefulSet's templates."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.admission.new_claims import ClaimChanges, NewClaims
from distrain.check.dependencies import Dependencies
from distrain.kube.storage import PersistentVolumeClaim
from distrain.scheduler.volume_binding import NO_PROVISIONER
from distrain.workload.manifest import Job, PodRole
from distrain.workload.stateful_sets import NumberedNames

# These annotations mark the default StorageClass. A claim that names no class gets this one.
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class OwnClaim(Struct, frozen=True):
    """A volume in a role's pod template for which each pod gets its own persistent volume claim.

    `name` is the name of the volume. `names` are the names of the claims, if they are known before the pods exist.
    `existing` are the names of claims that an earlier StatefulSet has left behind.
    """

    name: str
    spec: kube.ClaimSpec
    pods: int
    names: NumberedNames = NumberedNames()
    existing: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Return how many of the pods' claims do not exist yet."""
        return self.pods - len(self.existing)


def own_claims(role: PodRole, objects: Dependencies) -> Iterator[OwnClaim]:
    """Yield the volumes for which each pod of the role has its own claim."""
    for volume in role.spec.volumes or ():
        template = volume.ephemeral and volume.ephemeral.volume_claim_template
        if template:
            yield OwnClaim(volume.name, with_class(template.spec, objects), role.replicas)
    for name, names in role.claims_of_set.items():
        existing = tuple(sorted(each for each in objects.claims or {} if each in names))
        spec = with_class(role.claim_templates[name], objects)
        yield OwnClaim(name, spec, role.replicas, names, existing)


def manifest_claims(job: Job, objects: Dependencies) -> dict[str, PersistentVolumeClaim]:
    """Return the claims that the manifest creates, with their storage class. Leave out claims that exist already."""
    found = job.created.by_name(PersistentVolumeClaim)
    new = {name: claim for name, claim in found.items() if name not in (objects.claims or {})}
    return {name: replace(claim, spec=with_class(claim.spec, objects)) for name, claim in new.items()}


def changes(job: Job, objects: Dependencies) -> ClaimChanges:
    """Return the claims that are created for the job, and the claims that are deleted with the release's pods."""
    new = [NewClaims(name, claim.spec) for name, claim in sorted(manifest_claims(job, objects).items())]
    for role in job.roles:
        own = own_claims(role, objects) if role.replicas else ()
        new += [NewClaims(claim.name, claim.spec, claim.missing, role) for claim in own if claim.missing]
    return ClaimChanges(new, list(_ending(objects)))


def is_made(storage_class: kube.StorageClass | None) -> bool:
    """Tell whether a new volume is created for a claim of this class."""
    return storage_class is not None and storage_class.provisioner not in NO_PROVISIONER


def with_class(spec: kube.ClaimSpec, objects: Dependencies) -> kube.ClaimSpec:
    """Return the claim's spec.

    If a claim names no storage class, set the default class, or none if there is no default class.
    """
    if spec.storage_class_name is not None or objects.storage_classes is None:
        return spec
    classes = sorted(objects.storage_classes.items())
    defaults = [each for _, each in classes if _is_default(each)]
    # Kubernetes uses the newest of several default StorageClasses.
    newest = max(defaults, key=lambda each: each.metadata.creation_timestamp or "", default=None)
    return replace(spec, storage_class_name=newest.metadata.name if newest else "")


def _ending(objects: Dependencies) -> Iterator[NewClaims]:
    """Yield the claims of ephemeral volumes, which Kubernetes deletes with their pods."""
    for volume in (volume for pod in objects.own for volume in pod.spec.volumes or ()):
        template = volume.ephemeral and volume.ephemeral.volume_claim_template
        if template:
            yield NewClaims(volume.name, with_class(template.spec, objects))


def _is_default(storage_class: kube.StorageClass) -> bool:
    return any((storage_class.metadata.annotations or {}).get(name) == "true" for name in DEFAULT_CLASS)
