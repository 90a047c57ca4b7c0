"""Baseline: run the checks of the Pod Security Standard that forbids known ways to gain control of a node.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from distrain import kube
from distrain.admission.pod_security_check import (
    Check,
    Pod,
    counted,
    named,
    of_containers,
    of_contexts,
    quoted,
    security,
    unless_in_user_namespace,
    use,
    violation,
)
from distrain.kube.pod_spec import Handler, Lifecycle
from distrain.kube.security_context import Capabilities, Profile, SecurityContext, SELinuxOptions, WindowsOptions

APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
PROFILES = ("RuntimeDefault", "Localhost")
CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t"}
SELINUX_TYPES_31 = SELINUX_TYPES | {"container_engine_t"}
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
}  # fmt: skip
SYSCTLS_27 = SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
SYSCTLS_29 = SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
SYSCTLS_32 = SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
# Characters for which Go has a short escape sequence, such as \n.
GO_ESCAPES = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\"",
}  # fmt: skip


def app_armor_profile(pod: Pod) -> str:
    owners, profiles = of_contexts(pod, lambda context: _forbidden_type(context.app_armor_profile))
    annotations = [key for key in pod.annotations if key.startswith(APP_ARMOR)]
    bad = sorted(_annotation(pod, key) for key in annotations if not _is_app_armor(pod.annotations[key]))
    values = [*profiles, *bad]
    if not values:
        return ""
    setters = " and ".join([*([owners] if owners else []), *([counted("annotation", bad)] if bad else [])])
    detail = f"{setters} must not set AppArmor profile type to {quoted(values)}"
    return violation(counted("forbidden AppArmor profile", values), detail)


def capabilities(pod: Pod) -> str:
    names, added = of_containers(pod, lambda container: added_capabilities(container) - CAPABILITIES)
    detail = f"{named('container', names)} must not include {quoted(added)} in securityContext.capabilities.add"
    return violation("non-default capabilities", detail) if names else ""


def added_capabilities(container: kube.TemplateContainer) -> set[str]:
    return {*((security(container).capabilities or Capabilities()).add or ())}


def host_namespaces(pod: Pod) -> str:
    fields = {"hostNetwork": pod.spec.host_network, "hostPID": pod.spec.host_pid, "hostIPC": pod.spec.host_ipc}
    shared = [f"{name}=true" for name, is_shared in fields.items() if is_shared]
    return violation("host namespaces", ", ".join(shared)) if shared else ""


def host_path_volumes(pod: Pod) -> str:
    names = [volume.name for volume in pod.spec.volumes or () if volume.host_path is not None]
    return violation("hostPath volumes", named("volume", names)) if names else ""


def host_ports(pod: Pod) -> str:
    names, ports = of_containers(pod, _host_ports)
    detail = f"{named('container', names)} {use(names)} {counted('hostPort', ports)} {', '.join(ports)}"
    return violation("hostPort", detail) if names else ""


def host_probes_and_lifecycle(pod: Pod) -> str:
    names, hosts = of_containers(pod, _hosts)
    names = sorted(set(names))
    detail = f"{named('container', names)} {use(names)} {named('probe or lifecycle host', hosts)}"
    return violation("probe or lifecycle host", detail) if names else ""


def privileged(pod: Pod) -> str:
    names = [container.name for container in pod.containers if security(container).privileged]
    detail = f"{named('container', names)} must not set securityContext.privileged=true"
    return violation("privileged", detail) if names else ""


def proc_mount(pod: Pod) -> str:
    names, types = of_containers(pod, lambda container: _forbidden_mount(security(container).proc_mount))
    detail = f"{named('container', names)} must not set securityContext.procMount to {quoted(types)}"
    return violation("procMount", detail) if names else ""


def selinux_options(pod: Pod, types: Collection[str]) -> str:
    owners, fields = of_contexts(pod, lambda context: _forbidden_fields(context, types))
    _, bad = of_contexts(pod, lambda context: _forbidden_selinux_type(context, types))
    phrases = [named("type", bad)] if bad else []
    phrases += [f"{field} may not be set" for field in ("user", "role") if field in fields]
    detail = f"{owners} set forbidden securityContext.seLinuxOptions: {'; '.join(phrases)}"
    return violation("seLinuxOptions", detail) if owners else ""


def seccomp_annotations(pod: Pod) -> str:
    keys = [SECCOMP_OF_POD, *(f"{SECCOMP_OF_CONTAINER}{container.name}" for container in pod.containers)]
    given = {key for key in keys if key in pod.annotations}
    bad = sorted(_annotation(pod, key) for key in given if not _is_seccomp(pod.annotations[key]))
    detail = f"forbidden {counted('annotation', bad)} {', '.join(bad)}"
    return violation("seccompProfile", detail) if bad else ""


def seccomp_profile(pod: Pod) -> str:
    owners, types = of_contexts(pod, lambda context: _forbidden_type(context.seccomp_profile))
    detail = f"{owners} must not set securityContext.seccompProfile.type to {quoted(types)}"
    return violation("seccompProfile", detail) if owners else ""


def sysctls(pod: Pod, allowed: Collection[str]) -> str:
    names = [each.name or "" for each in pod.security.sysctls or ()]
    forbidden = [name for name in names if name not in allowed]
    return violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else ""


def windows_host_process(pod: Pod) -> str:
    owners, _ = of_contexts(pod, _host_process)
    detail = f"{owners} must not set securityContext.windowsOptions.hostProcess=true"
    return violation("hostProcess", detail) if owners else ""


def _forbidden_type(profile: Profile | None) -> list[str]:
    return [] if profile is None or profile.type in PROFILES else [profile.type or ""]


def _forbidden_mount(proc_mount: str | None) -> list[str]:
    return [] if proc_mount in (None, "Default") else [proc_mount]


def _forbidden_fields(context: SecurityContext, types: Collection[str]) -> list[str]:
    """Return the fields of the SELinux options that have forbidden values.

    Setting a user or a role is always forbidden.
    """
    options = context.se_linux_options or SELinuxOptions()
    given = [field for field in ("user", "role") if getattr(options, field)]
    return [*given, *(["type"] if _forbidden_selinux_type(context, types) else [])]


def _forbidden_selinux_type(context: SecurityContext, types: Collection[str]) -> list[str]:
    type_ = (context.se_linux_options or SELinuxOptions()).type or ""
    return [] if type_ in types else [type_]


def _host_process(context: SecurityContext) -> list[str]:
    return ["true"] if (context.windows_options or WindowsOptions()).host_process else []


def _host_ports(container: kube.TemplateContainer) -> list[str]:
    return [str(port.host_port) for port in container.ports or () if port.host_port]


def _hosts(container: kube.TemplateContainer) -> list[str]:
    lifecycle = container.lifecycle or Lifecycle()
    probes = (container.liveness_probe, container.readiness_probe, container.startup_probe)
    handlers = [each or Handler() for each in (*probes, lifecycle.post_start, lifecycle.pre_stop)]
    targets = [target for each in handlers for target in (each.http_get, each.tcp_socket) if target]
    return [target.host for target in targets if target.host]


def _is_app_armor(profile: str) -> bool:
    return profile in ("", "runtime/default") or profile.startswith("localhost/")


def _is_seccomp(profile: str) -> bool:
    return profile in ("runtime/default", "docker/default") or profile.startswith("localhost/")


def _annotation(pod: Pod, key: str) -> str:
    return f"{key}={_go_quoted(pod.annotations[key])}"


def _go_quoted(text: str) -> str:
    """Return the text in the format of Go's %q."""
    return '"' + "".join(map(_go_escaped, text)) + '"'


def _go_escaped(character: str) -> str:
    code = ord(character)
    if character in GO_ESCAPES:
        return GO_ESCAPES[character]
    if character.isprintable():
        return character
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# The checks are in the order of the API server, which sorts them by name.
BASELINE = (
    Check("appArmorProfile", 0, app_armor_profile),
    Check("capabilities_baseline", 0, capabilities),
    Check("hostNamespaces", 0, host_namespaces),
    Check("hostPathVolumes", 0, host_path_volumes),
    Check("hostPorts", 0, host_ports),
    Check("hostProbesAndHostLifecycle", 34, host_probes_and_lifecycle),
    Check("privileged", 0, privileged),
    Check("procMount", 0, proc_mount),
    Check("procMount", 35, unless_in_user_namespace(proc_mount)),
    Check("seLinuxOptions", 0, partial(selinux_options, types=SELINUX_TYPES)),
    Check("seLinuxOptions", 31, partial(selinux_options, types=SELINUX_TYPES_31)),
    Check("seccompProfile_baseline", 0, seccomp_annotations),
    Check("seccompProfile_baseline", 19, seccomp_profile),
    Check("sysctls", 0, partial(sysctls, allowed=SYSCTLS)),
    Check("sysctls", 27, partial(sysctls, allowed=SYSCTLS_27)),
    Check("sysctls", 29, partial(sysctls, allowed=SYSCTLS_29)),
    Check("sysctls", 32, partial(sysctls, allowed=SYSCTLS_32)),
    Check("windowsHostProcess", 0, windows_host_process),
)
