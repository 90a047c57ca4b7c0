"""Validate the security contexts of a pod and of its containers, and the namespaces that the pod shares with its node.

Kubernetes pkg/apis/core/validation/validation.go: ValidateSecurityContext, validatePodSpecSecurityContext,
validateHostUsers, validateOS
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.admission.validation.field_errors import forbidden, invalid, not_supported, required
from distrain.admission.validation.sysctls import of_sysctls
from distrain.kube.security_context import ContainerSecurityContext, PodSecurityContext, Profile, SecurityContext

LOCALHOST = "Localhost"
PROFILES = (LOCALHOST, "RuntimeDefault", "Unconfined")
UNMASKED = "Unmasked"
CHANGE_POLICIES = ("Always", "OnRootMismatch")
PROC_MOUNTS = ("Default", UNMASKED)
SYSTEMS = ("linux", "windows")
LARGEST_ID = 2**31 - 1
ESCALATION = "cannot set `allowPrivilegeEscalation` to false and"


def of_security(path: str, spec: kube.TemplateSpec) -> Iterator[str]:
    """Validate those fields of a pod and of its containers that are about security."""
    if spec.host_users is False:
        yield from _of_user_namespace(path, spec)
    if spec.security_context:
        yield from _of_both(f"{path}.securityContext", spec.security_context)
        yield from _of_groups(f"{path}.securityContext", spec.security_context)
        yield from of_sysctls(f"{path}.securityContext.sysctls", spec)
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers or ()):
            context = container.security_context or ContainerSecurityContext()
            where = f"{path}.{field}[{index}].securityContext"
            yield from _of_container(where, context, has_user_namespace=spec.host_users is False)
    if spec.os is not None and not spec.os.name:
        yield required(f"{path}.os.name")
    elif spec.os is not None and spec.os.name not in SYSTEMS:
        yield not_supported(f"{path}.os", spec.os.name or "", SYSTEMS)


def _of_user_namespace(path: str, spec: kube.TemplateSpec) -> Iterator[str]:
    for field, is_shared in (
        ("hostNetwork", spec.host_network),
        ("HostPID", spec.host_pid),
        ("HostIPC", spec.host_ipc),
    ):
        if is_shared:
            yield forbidden(f"{path}.{field}", "when `hostUsers` is false")


def _of_container(path: str, context: ContainerSecurityContext, *, has_user_namespace: bool) -> Iterator[str]:
    yield from _of_both(path, context)
    if context.proc_mount is not None and context.proc_mount not in PROC_MOUNTS:
        yield not_supported(f"{path}.procMount", context.proc_mount, PROC_MOUNTS)
    if context.proc_mount == UNMASKED and not has_user_namespace:
        yield invalid(f"{path}.procMount", UNMASKED, "`hostUsers` must be false to use `Unmasked`")
    if context.allow_privilege_escalation is False:
        # The API server's message contains the whole security context. This message leaves it out, because the manifest
        # shows it.
        if context.privileged:
            yield f"{path}: Invalid value: {ESCALATION} `privileged` to true"
        if "CAP_SYS_ADMIN" in ((context.capabilities and context.capabilities.add) or ()):
            yield f"{path}: Invalid value: {ESCALATION} `capabilities.Add` CAP_SYS_ADMIN"


def _of_both(path: str, context: SecurityContext) -> Iterator[str]:
    """Validate the fields that the security contexts of pods and of containers both have."""
    yield from _of_id(f"{path}.runAsUser", context.run_as_user)
    yield from _of_id(f"{path}.runAsGroup", context.run_as_group)
    yield from _of_profile(f"{path}.seccompProfile", context.seccomp_profile, "seccomp")
    yield from _of_profile(f"{path}.appArmorProfile", context.app_armor_profile, "AppArmor")


def _of_id(path: str, number: int | None) -> Iterator[str]:
    """Validate the numeric id of a user or a group."""
    if number is not None and not 0 <= number <= LARGEST_ID:
        yield invalid(path, number, f"must be between 0 and {LARGEST_ID}, inclusive")


def _of_groups(path: str, context: PodSecurityContext) -> Iterator[str]:
    yield from _of_id(f"{path}.fsGroup", context.fs_group)
    for index, group in enumerate(context.supplemental_groups or ()):
        yield from _of_id(f"{path}.supplementalGroups[{index}]", group)
    policy = context.fs_group_change_policy
    if policy is not None and policy not in CHANGE_POLICIES:
        yield not_supported(f"{path}.fsGroupChangePolicy", policy, CHANGE_POLICIES)


def _of_profile(path: str, profile: Profile | None, kind: str) -> Iterator[str]:
    if profile is None:
        return
    if not profile.type:
        yield required(f"{path}.type", f"type is required when {path.rpartition('.')[2]} is set")
    elif profile.type not in PROFILES:
        yield not_supported(f"{path}.type", profile.type, PROFILES)
    if profile.type == LOCALHOST and not profile.localhost_profile:
        yield required(f"{path}.localhostProfile", f"must be set when {kind} type is Localhost")
    if profile.type != LOCALHOST and profile.localhost_profile is not None:
        yield f"{path}.localhostProfile: Invalid value: can only be set when {kind} type is Localhost"
