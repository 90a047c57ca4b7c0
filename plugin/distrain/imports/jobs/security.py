"""Choose podSecurity and runAsUser, so that the pods have the same permissions as the pods of the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distrain.imports.draft import Draft
from distrain.imports.jobs.pod import Parts
from distrain.imports.jobs.spread import Role
from distrain.imports.secrets import quoting

# Pod Security Standards, https://kubernetes.io/docs/concepts/security/pod-security-standards/
HOST = ("hostNetwork", "hostIPC")
BASELINE_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
RESTRICTED_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"),
}


def carry_security(draft: Draft, roles: Sequence[Role], parts: Mapping[str, Parts]) -> None:
    user = _user(draft, roles, parts)
    privileged = next(_privileged(parts), "")
    if privileged:
        draft.choose(("podSecurity",), "privileged", privileged)
    elif not _is_restricted(parts, user):
        draft.choose(("podSecurity",), "baseline", "the source may run as root, and write to its image's folders")
    else:
        _write_to_image(roles, parts)


def _user(draft: Draft, roles: Sequence[Role], parts: Mapping[str, Parts]) -> Any:
    found = [(role, parts[role.section].pop("runAsUser", None)) for role in roles]
    users = [(role, part) for role, part in found if part]
    if not users:
        if draft.kind != "MPIJob":
            draft.choose(("runAsUser",), "cluster", "the source names no user, so the image's own")
        return None
    role, part = max(users, key=lambda each: each[0].section == "workers")
    draft.carry(("runAsUser",), part.value, *(path for path in part.paths if draft.ledger.get(path) == part.value))
    for _, theirs in users:
        for path in theirs.paths:
            if draft.ledger.get(path) == part.value:
                draft.know(path)
            else:
                draft.lose(path, f"all containers of a job have one user, that of the {role.name}'s program")
    return part.value


def _privileged(parts: Mapping[str, Parts]) -> Iterator[str]:
    """Yield the reasons why pods need podSecurity: privileged."""
    for section, each in parts.items():
        pod_spec = each["podSpec"].value if "podSpec" in each else {}
        yield from (f"{section} with {field}" for field in HOST if pod_spec.get(field))
        for volume in each["volumes"].value if "volumes" in each else []:
            if "hostPath" in volume:
                yield f"the hostPath volume {quoting.key(volume.get('name'))}"
        for where, fields in _contexts(each):
            if fields.get("privileged"):
                yield f"{section}: {where}.privileged"
            added = (fields.get("capabilities") or {}).get("add") or []
            yield from (
                f"{section}: capability {quoting.key(name)}" for name in added if name not in BASELINE_CAPABILITIES
            )
            if (fields.get("seccompProfile") or {}).get("type") == "Unconfined":
                yield f"{section}: seccompProfile Unconfined"


def _contexts(parts: Parts) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in ("securityContext", "containerSecurityContext"):
        if key in parts:
            yield key, parts[key].value
    for key in ("sidecars", "initContainers"):
        for container in parts[key].value if key in parts else []:
            yield f"{key} {quoting.key(container.get('name'))}", container.get("securityContext") or {}


def _is_restricted(parts: Mapping[str, Parts], user: Any) -> bool:
    """Tell whether all pods of the source already meet the Pod Security Standard `restricted`."""
    return bool(parts) and user != 0 and all(map(_meets_restricted, parts.values()))


def _meets_restricted(parts: Parts) -> bool:
    pod = parts["securityContext"].value if "securityContext" in parts else {}
    container = parts["containerSecurityContext"].value if "containerSecurityContext" in parts else {}
    volumes = parts["volumes"].value if "volumes" in parts else []
    both = {**pod, **container}
    drops = (container.get("capabilities") or {}).get("drop") or []
    kinds = {kind for volume in volumes for kind in volume if kind != "name"}
    alone = not ({"sidecars", "initContainers"} & set(parts))
    return bool(
        alone
        and both.get("runAsNonRoot")
        and "ALL" in drops
        and container.get("allowPrivilegeEscalation") is False
        and kinds <= RESTRICTED_VOLUMES
    )


def _write_to_image(roles: Sequence[Role], parts: Mapping[str, Parts]) -> None:
    """Let the program write to the root file system of the container.

    The chart's `restricted` makes the root file system read-only, which the Pod Security Standard does not require.
    """
    for role in roles:
        part = parts[role.section]["containerSecurityContext"]
        if "readOnlyRootFilesystem" not in part.value:
            part.value = {**part.value, "readOnlyRootFilesystem": False}
            part.paths = (*part.paths, (*role.place, "securityContext"))
