"""Define the fields in the security contexts of a pod and its containers that the API server checks."""

from __future__ import annotations

from distrain.kube.objects import Kube


class SELinuxOptions(Kube):
    user: str | None = None
    role: str | None = None
    type: str | None = None


class WindowsOptions(Kube):
    host_process: bool | None = None


class Profile(Kube):
    """A seccomp or AppArmor profile."""

    type: str | None = None
    localhost_profile: str | None = None


class Sysctl(Kube):
    name: str | None = None


class Capabilities(Kube):
    add: list[str] | None = None
    drop: list[str] | None = None


class SecurityContext(Kube):
    """The fields that pods and containers both have."""

    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    seccomp_profile: Profile | None = None
    app_armor_profile: Profile | None = None


class PodSecurityContext(SecurityContext):
    sysctls: list[Sysctl] | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    supplemental_groups: list[int] | None = None


class ContainerSecurityContext(SecurityContext):
    privileged: bool | None = None
    capabilities: Capabilities | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
