"""Validate persistent volume claims, and the templates of claims."""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.admission.validation.field_errors import POSITIVE, forbidden, invalid, not_supported, required
from distrain.admission.validation.selectors import of_label_selector
from distrain.kube.quantities import thousandths

ONCE_POD = "ReadWriteOncePod"
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", ONCE_POD)
VOLUME_MODES = ("Block", "Filesystem")


def of_claim(path: str, spec: kube.ClaimSpec) -> Iterator[str]:
    """Validate the spec of a claim."""
    yield from _of_access_modes(f"{path}.accessModes", spec.access_modes or [])
    yield from of_label_selector(f"{path}.selector", spec.selector)
    storage, where = spec.requests.get("storage"), f"{path}.resources[storage]"
    if storage is None:
        yield required(where)
    elif thousandths(storage) <= 0:
        yield invalid(where, str(storage), POSITIVE)
    if spec.volume_mode is not None and spec.volume_mode not in VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", spec.volume_mode, VOLUME_MODES)


def _of_access_modes(path: str, modes: list[str]) -> Iterator[str]:
    if not modes:
        yield required(path, "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported(path, mode, ACCESS_MODES)
    if ONCE_POD in modes and {*modes} & {*ACCESS_MODES[:3]}:
        yield forbidden(path, f"may not use {ONCE_POD} with other access modes")
