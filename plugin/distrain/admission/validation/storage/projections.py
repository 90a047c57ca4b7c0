"""Validate how a volume projects Secrets, ConfigMaps and tokens: their keys, and the files that hold the values.

Kubernetes pkg/apis/core/validation/validation.go: validateKeyToPath, validateProjectionSources,
ValidateLocalNonReservedPath
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distrain.admission.validation.field_errors import forbidden, invalid, required
from distrain.kube.pod_spec import KeyToPath, Projected, Projection, Token

OF_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
HIGHEST_MODE = 0o777
SHORTEST_TOKEN, LONGEST_TOKEN = 600, 2**32


def of_projected(path: str, projected: Projected) -> Iterator[str]:
    """Validate a projected volume, which has several sources."""
    yield from of_mode(f"{path}.defaultMode", projected.default_mode)
    taken: set[str] = set()
    for index, source in enumerate(projected.sources or ()):
        where = f"{path}.sources[{index}]"
        yield from _of_references(path, where, source, taken)
        if source.service_account_token:
            yield from _of_token(path, where, source.service_account_token)
        if len(source.types) > 1:
            yield forbidden(where, "may not specify more than 1 volume type per source")


def of_items(path: str, items: Sequence[KeyToPath] | None) -> Iterator[str]:
    """Validate which keys of a Secret or ConfigMap a volume projects, and to which files."""
    for index, item in enumerate(items or ()):
        if not item.key:
            yield required(f"{path}[{index}].key")
        if not item.path:
            yield required(f"{path}[{index}].path")
        yield from _of_local_path(f"{path}[{index}].path", item.path)
        yield from of_mode(f"{path}[{index}].mode", item.mode)


def of_mode(path: str, mode: int | None) -> Iterator[str]:
    if mode is not None and not 0 <= mode <= HIGHEST_MODE:
        yield invalid(path, mode, OF_MODE)


def _of_references(path: str, where: str, source: Projection, taken: set[str]) -> Iterator[str]:
    """Validate the Secret and ConfigMap of a source; `taken` are the files of the preceding sources."""
    for key, reference in (("secret", source.secret), ("configMap", source.config_map)):
        if reference is None:
            continue
        if not reference.name:
            yield required(f"{where}.{key}.name")
        yield from of_items(f"{where}.{key}.items", reference.items)
        for file in (item.path for item in reference.items or () if item.path):
            if file in taken:
                yield invalid(path, reference.name, "conflicting duplicate paths")
            taken.add(file)


def _of_token(path: str, where: str, token: Token) -> Iterator[str]:
    seconds = token.expiration_seconds
    if seconds is not None and seconds < SHORTEST_TOKEN:
        rule = "may not specify a duration less than 10 minutes"
        yield invalid(f"{where}.serviceAccountToken.expirationSeconds", seconds, rule)
    if seconds is not None and seconds > LONGEST_TOKEN:
        rule = "may not specify a duration larger than 2^32 seconds"
        yield invalid(f"{where}.serviceAccountToken.expirationSeconds", seconds, rule)
    # In these messages, the API server's field path starts at the volume, not at the source.
    if not token.path:
        yield required(f"{path}.path")
    else:
        yield from _of_local_path(f"{path}.path", token.path)


def _of_local_path(path: str, file: str) -> Iterator[str]:
    if file.startswith("/"):
        yield invalid(path, file, "must be a relative path")
    if ".." in file.split("/"):
        yield invalid(path, file, "must not contain '..'")
    if file.startswith("..") and not file.startswith("../"):
        yield invalid(path, file, "must not start with '..'")
