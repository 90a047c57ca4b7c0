"""Test rules on pods and volumes (_validate-pod.tpl): the message of each refusal, and a similar accepted case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.rendering import refusal, render_with, set_arguments

PYTORCH = "framework=pytorch"
PLAIN = "job.kind=Plain"
PRIVILEGED = "podSecurity=privileged"
SIDE = ("workers.sidecars[0].name=side", "workers.sidecars[0].image=side")
INIT_IMAGE = "workers.podSpec.initContainers[0].image=init"
SECURITY = "workers.sidecars[0].securityContext."
VOLUME = ("volumes[0].name=disk", "volumeMounts[0].name=disk", "volumeMounts[0].mountPath=/disk")

CASES = {
    "shm-above-memory": (
        ("workers.shm=2049Mi", "workers.memory=2Gi"),
        'workers.shm: "2049Mi" is more than workers.memory, "2Gi", but files in /dev/shm count as memory; '
        "lower workers.shm, or raise",
        ("workers.shm=2048Mi", "workers.memory=2Gi"),
    ),
    "shm-above-memory-by-another-unit": (
        ("workers.shm=1.5Gi", "workers.memory=1.5G"),
        'workers.shm: "1.5Gi" is more than workers.memory, "1.5G"',
        ("workers.shm=1.5G", "workers.memory=1.5Gi"),
    ),
    "shm-above-a-limit": (
        ("workers.shm=2049Mi", "workers.resources.limits.memory=2Gi"),
        'workers.shm: "2049Mi" is more than workers.resources.limits.memory, "2Gi", but files in /dev/shm '
        "count as memory; lower "
        "workers.shm, or raise workers.resources.limits.memory",
        ("workers.shm=2048Mi", "workers.resources.limits.memory=2Gi"),
    ),
    "shm-above-a-limit-at-the-top": (
        ("workers.shm=2049Mi", "resources.limits.memory=2Gi"),
        'workers.shm: "2049Mi" is more than resources.limits.memory, "2Gi", but files in /dev/shm count as '
        "memory; lower workers.shm, or",
        ("workers.shm=2049Mi", "resources.limits.memory=2Gi", "workers.memory=3Gi"),
    ),
    "root-under-restricted": (
        ("runAsUser=0",),
        "runAsUser: 0 is root, which podSecurity restricted forbids; --set podSecurity=baseline, or choose "
        "another user",
        ("runAsUser=0", "podSecurity=baseline"),
    ),
    "rdma-under-baseline": (
        ("network.rdma.resource=rdma/hca", "podSecurity=baseline"),
        'network.rdma.resource: "rdma/hca" adds the capability IPC_LOCK to the pods, which podSecurity baseline '
        "forbids; --set podSecurity=privileged, or, if the nodes set no limit on locked memory, request the resource",
        ("network.rdma.resource=rdma/hca", PRIVILEGED),
    ),
    "host-network-under-restricted": (
        ("workers.podSpec.hostNetwork=true",),
        "workers.podSpec.hostNetwork: podSecurity restricted forbids the node's network; --set podSecurity=privileged",
        ("workers.podSpec.hostNetwork=true", PRIVILEGED),
    ),
    "host-path-under-baseline": (
        (*VOLUME, "volumes[0].hostPath.path=/disk", "podSecurity=baseline"),
        "volumes[0].hostPath: podSecurity baseline forbids it; use a persistentVolumeClaim, or --set podSecurity=",
        (*VOLUME, "volumes[0].hostPath.path=/disk", PRIVILEGED),
    ),
    "nfs-under-restricted": (
        (*VOLUME, "volumes[0].nfs.server=nas", "volumes[0].nfs.path=/disk"),
        "volumes[0].nfs: podSecurity restricted forbids it; use a persistentVolumeClaim, or --set podSecurity=baseline",
        (*VOLUME, "volumes[0].nfs.server=nas", "volumes[0].nfs.path=/disk", "podSecurity=baseline"),
    ),
    "volume-twice": (
        ("volumes[0].name=a", "volumes[1].name=a"),
        'volumes[1].name: "a" appears twice; choose another name',
        ("volumes[0].name=a", "volumes[1].name=b"),
    ),
    "mount-twice": (
        (*VOLUME, "volumeMounts[1].name=disk", "volumeMounts[1].mountPath=/disk/"),
        'volumeMounts[1].mountPath: "/disk/" appears twice; choose another path',
        (*VOLUME, "volumeMounts[1].name=disk", "volumeMounts[1].mountPath=/disk2"),
    ),
    "sidecar-named-like-the-worker": (
        (PYTORCH, "workers.sidecars[0].name=pytorch", "workers.sidecars[0].image=side"),
        'workers.sidecars[0].name: "pytorch" is already the name of a container of the job, or of another '
        "container of yours; choose",
        ("workers.sidecars[0].name=pytorch", "workers.sidecars[0].image=side"),
    ),
    "init-container-named-like-the-operators": (
        ("workers.podSpec.initContainers[0].name=init-pytorch", INIT_IMAGE),
        'workers.podSpec.initContainers[0].name: "init-pytorch" is already the name',
        ("workers.podSpec.initContainers[0].name=init", INIT_IMAGE),
    ),
    "init-container-named-like-a-sidecar": (
        (*SIDE, "workers.podSpec.initContainers[0].name=side", INIT_IMAGE),
        '.name: "side" is already the name',
        (*SIDE, "workers.podSpec.initContainers[0].name=init", INIT_IMAGE),
    ),
    "privileged-sidecar": (
        (*SIDE, SECURITY + "privileged=true", "podSecurity=baseline"),
        "workers.sidecars[0]: securityContext.privileged is forbidden by podSecurity baseline; remove it, or set",
        (*SIDE, SECURITY + "privileged=true", PRIVILEGED),
    ),
    "sidecar-on-a-port-of-the-node": (
        (*SIDE, "workers.sidecars[0].ports[0].hostPort=80", "workers.sidecars[0].ports[0].containerPort=80"),
        "workers.sidecars[0]: ports.hostPort is forbidden by podSecurity restricted",
        (*SIDE, "workers.sidecars[0].ports[0].containerPort=80"),
    ),
    "sidecar-with-capabilities": (
        (*SIDE, SECURITY + "capabilities.add={CHOWN}"),
        "workers.sidecars[0]: securityContext.capabilities.add CHOWN is forbidden by podSecurity restricted",
        (*SIDE, SECURITY + "capabilities.add={CHOWN}", "podSecurity=baseline"),
    ),
    "sidecar-that-keeps-capabilities": (
        (*SIDE, SECURITY + "capabilities.drop={CHOWN}"),
        "workers.sidecars[0]: securityContext.capabilities.drop without ALL is forbidden by podSecurity restricted",
        (*SIDE, SECURITY + "capabilities.drop={ALL}"),
    ),
    "sidecar-as-root": (
        (*SIDE, SECURITY + "runAsUser=0"),
        "workers.sidecars[0]: a securityContext that makes it root is forbidden by podSecurity restricted",
        (*SIDE, SECURITY + "runAsUser=7"),
    ),
    "sidecar-that-may-be-root": (
        (*SIDE, SECURITY + "runAsNonRoot=false"),
        "workers.sidecars[0]: a securityContext that makes it root is forbidden by podSecurity restricted",
        (*SIDE, SECURITY + "runAsNonRoot=true"),
    ),
    "sidecar-that-gains-privileges": (
        (*SIDE, SECURITY + "allowPrivilegeEscalation=true"),
        "workers.sidecars[0]: securityContext.allowPrivilegeEscalation is forbidden by podSecurity restricted",
        (*SIDE, SECURITY + "allowPrivilegeEscalation=true", "podSecurity=baseline"),
    ),
    "sidecar-without-seccomp": (
        (*SIDE, SECURITY + "seccompProfile.type=Unconfined", "podSecurity=baseline"),
        "workers.sidecars[0]: securityContext.seccompProfile.type Unconfined is forbidden by podSecurity baseline",
        (*SIDE, SECURITY + "seccompProfile.type=Unconfined", PRIVILEGED),
    ),
    "two-schedulers": (
        ("workers.podSpec.schedulerName=mine", "gang.scheduler=volcano"),
        'workers.podSpec.schedulerName: is "mine", but with gang.scheduler volcano one scheduler places all pods',
        ("workers.podSpec.schedulerName=mine",),
    ),
    "env-of-network": (
        ("network.interface=eth0", "env[0].name=NCCL_SOCKET_IFNAME"),
        "env[0].name: NCCL_SOCKET_IFNAME is already set, from network.*; remove it in one place",
        ("env[0].name=NCCL_SOCKET_IFNAME",),
    ),
    "env-of-pytorchs-operator": (
        (PYTORCH, "env[0].name=RANK"),
        "env[0].name: RANK is already set, from the operator of PyTorchJob; remove it in one place",
        ("env[0].name=RANK",),
    ),
    "env-twice": (
        ("env[0].name=A", "env[1].name=A"),
        "env[1].name: A is already set, from env[0]; remove it in one place",
        ("env[0].name=A", "env[1].name=B"),
    ),
    "label-of-a-native-job": (
        (PLAIN, "podLabels.job-name=mine"),
        "podLabels: job-name is a label that the job itself sets; remove it",
        ("podLabels.job-name=mine",),
    ),
    "annotation-of-a-gang": (
        ("podAnnotations.scheduling\\.k8s\\.io/group-name=mine",),
        "podAnnotations: scheduling.k8s.io/group-name is an annotation that the job itself sets; remove it",
        ("podAnnotations.group-name=mine",),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rule_refuses_and_accepts_a_neighbour(helm: Path, case: str) -> None:
    refused, words, accepted = CASES[case]

    message = refusal(helm, *set_arguments(*refused))

    assert "distrain: " in message
    assert words in message
    render_with(helm, accepted)
