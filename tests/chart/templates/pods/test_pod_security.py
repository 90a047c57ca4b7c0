"""Test that pods meet their Pod Security Standard, and run as the user set in the values."""

from __future__ import annotations

from pathlib import Path

from tests.chart.kinds import KINDS, SIDE, TRAINS, every_kind
from tests.chart.rendering import Yaml, containers, render_with

RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
# https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip


def assert_baseline(pod: Yaml) -> None:
    assert not [field for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"seLinuxOptions", "sysctls", "windowsOptions", "appArmorProfile"} & set(pod["securityContext"])
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    for container in containers(pod):
        security = container.get("securityContext", {})
        assert not security.get("privileged")
        assert set(security.get("capabilities", {}).get("add", [])) <= BASELINE_CAPABILITIES
        assert not [port for port in container.get("ports", []) if "hostPort" in port]
        assert not {"procMount", "seLinuxOptions"} & set(security)


def assert_restricted(pod: Yaml) -> None:
    assert_baseline(pod)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    for volume in pod["volumes"]:
        assert set(volume) - {"name"} <= RESTRICTED_VOLUMES
    for container in containers(pod):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@every_kind
def test_pods_pass_pod_security_restricted(helm: Path, kind: str) -> None:
    for pod in render_with(helm, (*KINDS[kind], *SIDE)).pods().values():
        assert_restricted(pod)
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


@every_kind
def test_pods_of_baseline_are_roots_and_pass_it(helm3: Path, kind: str) -> None:
    for pod in render_with(helm3, (*KINDS[kind], *SIDE, "podSecurity=baseline")).pods().values():
        assert_baseline(pod)
        assert pod["securityContext"] == {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}
        assert pod["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": False,
        }


@every_kind
def test_user_can_be_another(helm3: Path, kind: str) -> None:
    for pod in render_with(helm3, (*KINDS[kind], "runAsUser=2000000000")).pods().values():
        security = pod["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == 3 * (2000000000,)


@every_kind
def test_rdma_gives_devices_and_locked_memory_to_the_training_pods(helm3: Path, kind: str) -> None:
    values = ("podSecurity=privileged", "network.rdma.resource=vpc.amazonaws.com/efa", "network.rdma.count=4")

    for role, pod in render_with(helm3, (*KINDS[kind], *values)).pods().items():
        container = pod["containers"][0]
        limits = container.get("resources", {}).get("limits", {})
        added = container["securityContext"].get("capabilities", {}).get("add")
        assert (limits.get("vpc.amazonaws.com/efa"), added) == ((4, ["IPC_LOCK"]) if role in TRAINS else (None, None))


@every_kind
def test_privileged_alone_locks_nothing(helm3: Path, kind: str) -> None:
    for pod in render_with(helm3, (*KINDS[kind], "podSecurity=privileged")).pods().values():
        assert "capabilities" not in pod["containers"][0]["securityContext"]


def test_sidecar_keeps_what_it_says_of_its_security(helm: Path) -> None:
    values = (*SIDE, "workers.sidecars[0].securityContext.runAsUser=7")

    _, side = render_with(helm, values).pod("Worker")["containers"]

    assert side["securityContext"] == {
        "runAsUser": 7,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
