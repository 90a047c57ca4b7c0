"""Validate the environment variables of a container.

Kubernetes pkg/apis/core/validation/validation.go: ValidateEnv, validateEnvVarValueFrom, validateObjectFieldSelector;
pkg/apis/core/pods/helpers.go: ConvertDownwardAPIFieldLabel
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distrain.admission.validation.field_errors import invalid, not_supported, required
from distrain.admission.validation.names import qualified_name
from distrain.kube.pod_spec import FieldReference, ResourceReference, ValueFrom, Variable, Variables

OF_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"
NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
TWO_SOURCES = "may not have more than one field specified at a time"
FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
# The API server knows these fields, but an environment variable cannot refer to them.
OTHER_FIELDS = ("metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase")
OLD_NODE_NAME = "spec.host"
SUBSCRIPTED = re.compile(r"(?s)(.+?)\['(.*)'\]")
RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")


def of_variable(path: str, variable: Variable) -> Iterator[str]:
    name = variable.name
    if not name:
        yield required(f"{path}.name")
    elif "=" in name or not (name.isascii() and name.isprintable()):
        yield invalid(f"{path}.name", name, OF_NAME)
    if variable.value_from is not None:
        yield from _of_source(f"{path}.valueFrom", variable.value_from)


def of_variables(path: str, variables: Variables) -> Iterator[str]:
    """Validate the variables that come from all keys of a Secret or ConfigMap."""
    for kind, source in (("configMapRef", variables.config_map_ref), ("secretRef", variables.secret_ref)):
        if source and not source.name:
            yield required(f"{path}.{kind}.name")


def _of_source(path: str, source: ValueFrom) -> Iterator[str]:
    if source.field_ref:
        yield from _of_field(f"{path}.fieldRef", source.field_ref)
    if source.resource_field_ref:
        yield from _of_resource(f"{path}.resourceFieldRef", source.resource_field_ref)
    for kind, key in (("secretKeyRef", source.secret_key_ref), ("configMapKeyRef", source.config_map_key_ref)):
        for field, value in (("name", key.name), ("key", key.key)) if key else ():
            if not value:
                yield required(f"{path}.{kind}.{field}")
    known = (source.field_ref, source.resource_field_ref, source.secret_key_ref, source.config_map_key_ref)
    number = sum(each is not None for each in known)
    # Newer API servers also accept a `fileKeyRef`.
    if not number and source.file_key_ref is None:
        yield invalid(path, "", NO_SOURCE)
    if number > 1:
        yield invalid(path, "", TWO_SOURCES)


def _of_field(path: str, found: FieldReference) -> Iterator[str]:
    name = found.field_path
    if not name:
        yield required(f"{path}.fieldPath")
    elif found.api_version not in (None, "", "v1"):
        rule = f"error converting fieldPath: unsupported pod version: {found.api_version}"
        yield invalid(f"{path}.fieldPath", name, rule)
    elif part := SUBSCRIPTED.fullmatch(name):
        yield from _of_subscripted(path, name, *part.groups())
    elif name in OTHER_FIELDS:
        yield not_supported(f"{path}.fieldPath", name, FIELDS)
    elif name not in (*FIELDS, OLD_NODE_NAME):
        yield invalid(f"{path}.fieldPath", name, f"error converting fieldPath: field label not supported: {name}")


def _of_subscripted(path: str, name: str, field: str, key: str) -> Iterator[str]:
    """Validate the name of a label or an annotation in a field path, such as metadata.labels['app']."""
    if field not in ("metadata.annotations", "metadata.labels"):
        rule = f"error converting fieldPath: field label does not support subscript: {name}"
        yield invalid(f"{path}.fieldPath", name, rule)
        return
    key = key.lower() if field == "metadata.annotations" else key
    yield from (invalid(path, key, wrong) for wrong in qualified_name(key))


def _of_resource(path: str, found: ResourceReference) -> Iterator[str]:
    if not found.resource:
        yield required(f"{path}.resource")
    elif found.resource not in RESOURCES and not found.resource.startswith(HUGE_PAGES):
        yield not_supported(f"{path}.resource", found.resource, RESOURCES)
