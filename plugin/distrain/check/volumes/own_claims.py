"""Find the claims that belong to single pods: claims of ephemeral volumes and of a StatefulSet's templates."""

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

# These annotations mark the default StorageClass, which claims without a class get.
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class OwnClaim(Struct, frozen=True):
    """A volume for which each pod of the role has a claim of its own.

    `name` is the volume's name. `names` are the claims' names, as far as they are known before the pods exist.
    `existing` are the names of the claims that an earlier StatefulSet has left.
    """

    name: str
    spec: kube.ClaimSpec
    pods: int
    names: NumberedNames = NumberedNames()
    existing: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Return how many of the pods' claims are still to be created."""
        return self.pods - len(self.existing)


def own_claims(role: PodRole, objects: Dependencies) -> Iterator[OwnClaim]:
    """Yield the claims of the role's pods."""
    for volume in role.spec.volumes or ():
        template = volume.ephemeral and volume.ephemeral.volume_claim_template
        if template:
            yield OwnClaim(volume.name, with_class(template.spec, objects), role.replicas)
    for name, names in role.claims_of_set.items():
        existing = tuple(sorted(each for each in objects.claims or {} if each in names))
        spec = with_class(role.claim_templates[name], objects)
        yield OwnClaim(name, spec, role.replicas, names, existing)


def manifest_claims(job: Job, objects: Dependencies) -> dict[str, PersistentVolumeClaim]:
    """Return the claims that the manifest creates, with their storage class; leave out those that exist already."""
    found = job.created.by_name(PersistentVolumeClaim)
    new = {name: claim for name, claim in found.items() if name not in (objects.claims or {})}
    return {name: replace(claim, spec=with_class(claim.spec, objects)) for name, claim in new.items()}


def changes(job: Job, objects: Dependencies) -> ClaimChanges:
    """Return the claims that are created for the job, and the claims that are deleted with the release's own pods."""
    new = [NewClaims(name, claim.spec) for name, claim in sorted(manifest_claims(job, objects).items())]
    for role in job.roles:
        own = own_claims(role, objects) if role.replicas else ()
        new += [NewClaims(claim.name, claim.spec, claim.missing, role) for claim in own if claim.missing]
    return ClaimChanges(new, list(_ending(objects)))


def is_made(storage_class: kube.StorageClass | None) -> bool:
    """Tell whether a new volume is made for a claim of this class."""
    return storage_class is not None and storage_class.provisioner not in NO_PROVISIONER


def with_class(spec: kube.ClaimSpec, objects: Dependencies) -> kube.ClaimSpec:
    """Return the claim with the default storage class if it names none; without a default class, with no class."""
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
