"""Validate the volumes of a pod, and the places at which its containers mount them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from distrain import kube
from distrain.admission.validation.field_errors import duplicate, forbidden, invalid, not_found, required
from distrain.admission.validation.names import dns_label, of_each
from distrain.admission.validation.storage.claims import of_claim
from distrain.admission.validation.storage.projections import of_items, of_mode, of_projected

ONE_TYPE = "may not specify more than 1 volume type"
# The common volume types, in the order in which the API server validates them. The API server also knows other volume
# types, which are left out here.
FIRST_TYPES = (
    *("emptyDir", "hostPath", "gitRepo", "secret", "nfs", "persistentVolumeClaim", "downwardAPI", "configMap"),
    *("projected", "csi", "ephemeral"),
)


def of_volumes(path: str, volumes: Sequence[kube.Volume]) -> tuple[set[str], list[str]]:
    """Return the names of the valid volumes, which containers can mount, and the messages about the invalid volumes."""
    names: set[str] = set()
    found: list[str] = []
    for index, volume in enumerate(volumes):
        wrong = list(_of_volume(f"{path}[{index}]", volume, names))
        found += wrong
        if not wrong:
            names.add(volume.name)
    return names, found


def of_mounts(path: str, mounts: Sequence[kube.VolumeMount], volumes: Collection[str]) -> Iterator[str]:
    """Validate the mounts of one container; `volumes` are the names of the volumes that it can mount."""
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        if not mount.name:
            yield required(f"{path}[{index}].name")
        if mount.name not in volumes:
            yield not_found(f"{path}[{index}].name", mount.name)
        if not mount.mount_path:
            yield required(f"{path}[{index}].mountPath")
        if mount.mount_path in taken:
            yield invalid(f"{path}[{index}].mountPath", mount.mount_path, "must be unique")
        taken.add(mount.mount_path)


def _of_volume(path: str, volume: kube.Volume, names: Collection[str]) -> Iterator[str]:
    yield from list(_of_types(path, volume)) or _of_claims(path, volume)
    if not volume.name:
        yield required(f"{path}.name")
    else:
        yield from of_each(f"{path}.name", volume.name, dns_label)
    if volume.name in names:
        yield duplicate(f"{path}.name", volume.name)


def _of_claims(path: str, volume: kube.Volume) -> Iterator[str]:
    claim, template = volume.persistent_volume_claim, volume.ephemeral and volume.ephemeral.volume_claim_template
    if template:
        yield from of_claim(f"{path}.ephemeral.volumeClaimTemplate.spec", template.spec)
    if claim and not claim.claim_name:
        yield required(f"{path}.persistentVolumeClaim.claimName")
    if isinstance(volume, kube.TemplateVolume):
        yield from _of_sources(path, volume)


def _of_sources(path: str, volume: kube.TemplateVolume) -> Iterator[str]:
    if volume.secret and not volume.secret.secret_name:
        yield required(f"{path}.secret.secretName")
    if volume.config_map and not volume.config_map.name:
        yield required(f"{path}.configMap.name")
    for key, files in (("secret", volume.secret), ("configMap", volume.config_map)):
        if files:
            yield from of_mode(f"{path}.{key}.defaultMode", files.default_mode)
            yield from of_items(f"{path}.{key}.items", files.items)
    if volume.projected:
        yield from of_projected(f"{path}.projected", volume.projected)
    if volume.host_path and not volume.host_path.path:
        yield required(f"{path}.hostPath.path")
    elif volume.host_path and ".." in volume.host_path.path.split("/"):
        yield invalid(f"{path}.hostPath.path", volume.host_path.path, "must not contain '..'")


def _of_types(path: str, volume: kube.Volume) -> Iterator[str]:
    """Yield a message for a volume that has several types.

    If a volume has several types, the API server accepts the type that comes first in the API server's list of types,
    and refuses the others.
    """
    types = volume.sources if isinstance(volume, kube.TemplateVolume) else []
    first = next((each for each in FIRST_TYPES if each in types), types[0] if types else "")
    yield from (forbidden(f"{path}.{each}", ONE_TYPE) for each in types if each != first)
