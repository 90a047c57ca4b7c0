"""Restricted: run the checks that the strictest Pod Security Standard adds to the checks of baseline.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from __future__ import annotations

from collections.abc import Callable

from distrain import kube
from distrain.admission.pod_security_baseline import added_capabilities, proc_mount, seccomp_profile
from distrain.admission.pod_security_check import (
    Check,
    Pod,
    named,
    of_containers,
    of_contexts,
    quoted,
    security,
    unless_in_user_namespace,
    unless_windows,
    use,
    violation,
)
from distrain.kube.security_context import Capabilities, SecurityContext

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def allow_privilege_escalation(pod: Pod) -> str:
    names = [each.name for each in pod.containers if security(each).allow_privilege_escalation is not False]
    detail = f"{named('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return violation("allowPrivilegeEscalation != false", detail) if names else ""


def capabilities(pod: Pod) -> str:
    keeping = [container.name for container in pod.containers if "ALL" not in _dropped(container)]
    adding, added = of_containers(pod, lambda container: added_capabilities(container) - {"NET_BIND_SERVICE"})
    details = [f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        must_not = f"must not include {quoted(added)} in securityContext.capabilities.add"
        details.append(f"{named('container', adding)} {must_not}")
    return violation("unrestricted capabilities", "; ".join(details)) if details else ""


def restricted_volumes(pod: Pod) -> str:
    bad = [volume for volume in pod.spec.volumes or () if not VOLUMES & {*volume.sources}]
    names, types = [volume.name for volume in bad], sorted({*map(_type, bad)})
    detail = f"{named('volume', names)} {use(names)} {named('restricted volume type', types)}"
    return violation("restricted volume types", detail) if bad else ""


def run_as_non_root(pod: Pod) -> str:
    owners, _ = of_contexts(pod, _runs_as_root)
    if owners:
        return violation("runAsNonRoot != true", f"{owners} must not set securityContext.runAsNonRoot=false")
    names = _silent(pod, lambda context: context.run_as_non_root is None)
    detail = f"pod or {named('container', names)} must set securityContext.runAsNonRoot=true"
    return violation("runAsNonRoot != true", detail) if names else ""


def run_as_user(pod: Pod) -> str:
    owners, _ = of_contexts(pod, lambda context: ["0"] if context.run_as_user == 0 else [])
    return violation("runAsUser=0", f"{owners} must not set runAsUser=0") if owners else ""


def restricted_seccomp_profile(pod: Pod) -> str:
    forbidden = seccomp_profile(pod)
    names = _silent(pod, lambda context: context.seccomp_profile is None)
    must_set = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    missing = violation("seccompProfile", f"pod or {named('container', names)} {must_set}") if names else ""
    return forbidden or missing


def _silent(pod: Pod, says_nothing: Callable[[SecurityContext], bool]) -> list[str]:
    """If the pod does not set the field, return the names of the containers that do not set it either."""
    names = [container.name for container in pod.containers if says_nothing(security(container))]
    return names if says_nothing(pod.security) else []


def _dropped(container: kube.TemplateContainer) -> list[str]:
    return (security(container).capabilities or Capabilities()).drop or []


def _type(volume: kube.TemplateVolume) -> str:
    return next(iter(volume.sources), "unknown")


def _runs_as_root(context: SecurityContext) -> list[str]:
    return ["false"] if context.run_as_non_root is False else []


CAPABILITIES, SECCOMP = "capabilities_baseline", "seccompProfile_baseline"
# The checks are in the order of the API server, which sorts them by name.
RESTRICTED = (
    Check("allowPrivilegeEscalation", 8, allow_privilege_escalation),
    Check("allowPrivilegeEscalation", 25, unless_windows(allow_privilege_escalation)),
    Check("capabilities_restricted", 22, capabilities, replaces=CAPABILITIES),
    Check("capabilities_restricted", 25, unless_windows(capabilities), replaces=CAPABILITIES),
    Check("procMount_restricted", 35, proc_mount, replaces="procMount"),
    Check("restrictedVolumes", 0, restricted_volumes, replaces="hostPathVolumes"),
    Check("runAsNonRoot", 0, run_as_non_root),
    Check("runAsNonRoot", 35, unless_in_user_namespace(run_as_non_root)),
    Check("runAsUser", 23, run_as_user),
    Check("runAsUser", 35, unless_in_user_namespace(run_as_user)),
    Check("seccompProfile_restricted", 19, restricted_seccomp_profile, replaces=SECCOMP),
    Check("seccompProfile_restricted", 25, unless_windows(restricted_seccomp_profile), replaces=SECCOMP),
)
