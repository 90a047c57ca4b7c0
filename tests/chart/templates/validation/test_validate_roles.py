"""Test rules on the values of every role (_validate-roles.tpl): each refusal, and a similar accepted case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.rendering import refusal, render
from tests.chart.templates.validation.neighbours import assert_refused_and_neighbour_accepted

CASES = {
    "cpu-in-two-places": (
        "workers: {cpu: 2, resources: {requests: {cpu: 2}}}",
        "workers.resources.requests.cpu: workers.cpu sets it too; remove one of the two",
        "workers: {resources: {requests: {cpu: 2}}}",
    ),
    "memory-in-two-places": (
        "launcher: {memory: 1Gi, resources: {limits: {memory: 2Gi}}}",
        "launcher.resources.limits.memory: launcher.memory sets it too; remove one of the two",
        "launcher: {resources: {requests: {memory: 1Gi}, limits: {memory: 2Gi}}}",
    ),
    "gpus-in-two-places": (
        "workers: {resources: {limits: {nvidia.com/gpu: 2}}}",
        "workers.resources.limits.nvidia.com/gpu: workers.gpus sets it; remove it here",
        "workers: {gpuResource: example.com/gpu, resources: {limits: {nvidia.com/gpu: 2}}}",
    ),
    "gpus-that-no-rank-would-use": (
        "workers: {gpus: 0, resources: {limits: {nvidia.com/gpu: 2}}}",
        "workers.resources.limits.nvidia.com/gpu: is 2, but workers.gpus is 0, so each worker would start only one "
        "rank; --set workers.gpus=2, and remove this request",
        "{workers: {gpus: 0, resources: {limits: {nvidia.com/gpu: 0}}}, launcher: {resources: {limits: "
        "{nvidia.com/gpu: 1}}}}",
    ),
    "gpus-at-the-top-that-no-rank-would-use": (
        "{resources: {limits: {amd.com/gpu: 8}}, workers: {gpus: 0, gpuResource: amd.com/gpu}}",
        "resources.limits.amd.com/gpu: is 8, but workers.gpus is 0",
        "{workers: {gpus: 0, gpuResource: amd.com/gpu}}",
    ),
    "rdma-in-two-places": (
        "{podSecurity: privileged, network: {rdma: {resource: rdma/a}}, resources: {limits: {rdma/a: 2}}}",
        "resources.limits.rdma/a: network.rdma sets it too; remove one of the two",
        "{podSecurity: privileged, network: {rdma: {resource: rdma/a}}, workers: {resources: {limits: {rdma/b: 2}}}}",
    ),
    "gpus-as-network-devices": (
        "{podSecurity: privileged, network: {rdma: {resource: nvidia.com/gpu, count: 4}}}",
        'network.rdma.resource: "nvidia.com/gpu" is workers.gpuResource, the resource of the GPUs; name the',
        "{podSecurity: privileged, network: {rdma: {resource: nvidia.com/hca, count: 4}}}",
    ),
    "memory-without-a-unit": (
        "workers: {resources: {limits: {memory: 16}}}",
        'workers.resources.limits.memory: "16" is less than 1Mi; did you mean 16Gi or 16Mi?',
        "workers: {resources: {limits: {memory: 17179869184}}}",
    ),
    "worker-memory-as-a-small-number": (
        "workers: {memory: 16}",
        'workers.memory: "16" is less than 1Mi; did you mean 16Gi or 16Mi?',
        "workers: {memory: 17179869184}",
    ),
    "limit-below-cpu": (
        "workers: {cpu: 8, resources: {limits: {cpu: 7500m}}}",
        "workers.resources.limits.cpu: 7500m is less than workers.cpu, 8, which Kubernetes refuses; raise "
        "the limit, or lower",
        "workers: {cpu: 8, resources: {limits: {cpu: 8000m}}}",
    ),
    "limit-at-the-top-below-a-request": (
        "{resources: {limits: {ephemeral-storage: 1Gi}}, launcher: {resources: {requests: {ephemeral-storage: 2G}}}}",
        "resources.limits.ephemeral-storage: 1Gi is less than launcher.resources.requests.ephemeral-storage, 2G",
        "{resources: {limits: {ephemeral-storage: 2Gi}}, launcher: {resources: {requests: {ephemeral-storage: 2G}}}}",
    ),
    "limit-at-the-top-below-cpu": (
        "{resources: {limits: {cpu: 1}}, workers: {cpu: 2}}",
        "resources.limits.cpu: 1 is less than workers.cpu, 2, which Kubernetes refuses; raise the limit, "
        "or lower the request",
        "{resources: {limits: {cpu: 1}}, workers: {cpu: 2, resources: {limits: {cpu: 2}}}}",
    ),
    "limit-and-request-at-the-top": (
        "resources: {limits: {cpu: 1}, requests: {cpu: 2}}",
        "resources.limits.cpu: 1 is less than resources.requests.cpu, 2, which Kubernetes refuses; raise "
        "the limit, or lower",
        "resources: {limits: {cpu: 2}, requests: {cpu: 2}}",
    ),
    "devices-at-the-top-without-a-limit": (
        "resources: {requests: {example.com/nic: 1}}",
        "resources.requests.example.com/nic: is 1 without a limit, but Kubernetes requires a limit for this "
        "resource; write it under resources.limits instead",
        "resources: {limits: {example.com/nic: 1}}",
    ),
    "gpus-at-the-top-of-a-launcher-that-would-get-ranks": (
        "{job: {apiVersion: v1}, resources: {limits: {example.com/gpu: 1}}}",
        "resources.limits.example.com/gpu: the operator of MPIJob v1 would start ranks in a launcher with GPUs; move "
        "it to workers.resources.limits",
        "{job: {apiVersion: v1}, workers: {resources: {limits: {example.com/gpu: 1}}}}",
    ),
    "claim-at-the-top-that-a-role-lacks": (
        "{resources: {claims: [{name: a}]}, workers: {podSpec: {resourceClaims: [{name: a, resourceClaimName: b}]}}}",
        'resources.claims[0].name: "a" is not in launcher.podSpec.resourceClaims; add it there, or set '
        "launcher.resources.claims",
        "{resources: {claims: [{name: a}]}, podSpec: {resourceClaims: [{name: a, resourceClaimName: b}]}}",
    ),
    "devices-without-a-limit": (
        "workers: {resources: {requests: {vpc.amazonaws.com/efa: 4}}}",
        "workers.resources.requests.vpc.amazonaws.com/efa: is 4 without a limit, but Kubernetes requires a "
        "limit for this resource; write it under workers.resources.limits instead",
        "workers: {resources: {limits: {vpc.amazonaws.com/efa: 4}}}",
    ),
    "hugepages-with-another-limit": (
        "workers: {resources: {requests: {hugepages-2Mi: 1Gi}, limits: {cpu: 1, hugepages-2Mi: 2Gi}}}",
        "workers.resources.requests.hugepages-2Mi: is 1Gi, but its limit is 2Gi, and Kubernetes requires "
        "them to be equal; "
        "remove the request",
        "workers: {resources: {requests: {hugepages-2Mi: 2Gi}, limits: {cpu: 1, hugepages-2Mi: 2048Mi}}}",
    ),
    "gpus-of-a-launcher-that-would-get-ranks": (
        "{job: {apiVersion: v1}, launcher: {resources: {limits: {nvidia.com/gpu: 1}}}}",
        "launcher.resources.limits.nvidia.com/gpu: the operator of MPIJob v1 would start ranks in a launcher with GPUs",
        "launcher: {resources: {limits: {nvidia.com/gpu: 1}}}",
    ),
    "hugepages-alone": (
        "workers: {resources: {limits: {hugepages-2Mi: 1Gi}}}",
        "workers.resources.limits.hugepages-2Mi: Kubernetes refuses huge pages without cpu or memory; set "
        "workers.cpu or",
        "{workers: {gpus: 0, resources: &r {limits: {hugepages-2Mi: 1Gi}}}, launcher: {resources: *r}}",
    ),
    "field-that-distrain-sets": (
        "launcher: {podSpec: {containers: [{name: a}]}}",
        "launcher.podSpec.containers: distrain writes the main container; use sidecars, or env, resources and",
        "launcher: {podSpec: {dnsPolicy: Default}}",
    ),
    "field-with-a-value-of-its-own": (
        "podSpec: {tolerations: []}",
        "podSpec.tolerations: use tolerations beside podSpec",
        "tolerations: []",
    ),
    "runtime-class-twice": (
        "workers: {runtimeClassName: a, podSpec: {runtimeClassName: b}}",
        "workers.podSpec.runtimeClassName: workers.runtimeClassName sets it too; remove one of the two",
        "{runtimeClassName: a, workers: {podSpec: {runtimeClassName: b}}}",
    ),
    "grace-of-the-launcher": (
        "launcher: {podSpec: {terminationGracePeriodSeconds: 9}}",
        "launcher.podSpec.terminationGracePeriodSeconds: all pods of a job have the same grace period; use "
        "workers.podSpec",
        "podSpec: {terminationGracePeriodSeconds: 9}",
    ),
    "network-of-the-launchers-node": (
        "launcher: {podSpec: {hostNetwork: true}}",
        "launcher.podSpec.hostNetwork: podSecurity restricted forbids the node's network; --set podSecurity=privileged",
        "{podSecurity: privileged, launcher: {podSpec: {hostNetwork: true}}}",
    ),
    "shared-memory-of-the-node": (
        "{podSecurity: baseline, podSpec: {hostIPC: true}}",
        "podSpec.hostIPC: podSecurity baseline forbids the node's shared memory; --set podSecurity=privileged",
        "{podSecurity: baseline, podSpec: {hostIPC: false}}",
    ),
    "claims-that-the-operator-drops": (
        "{framework: pytorch, podSpec: {resourceClaims: [{name: a, resourceClaimName: b}]}}",
        "podSpec.resourceClaims: a PyTorchJob v1 has no such field; remove the claims, or use MPIJob v2beta1 or "
        "job.kind Plain",
        "podSpec: {resourceClaims: [{name: a, resourceClaimName: b}]}",
    ),
    "claim-that-the-pod-lacks": (
        "workers: {resources: {claims: [{name: a}]}}",
        'workers.resources.claims[0].name: "a" is not in workers.podSpec.resourceClaims; add it there',
        "{podSpec: {resourceClaims: [{name: a, resourceClaimName: b}]}, workers: {resources: {claims: [{name: a}]}}}",
    ),
    "gpus-of-no-claim": (
        'workers: {gpus: 8, gpuResource: ""}',
        "workers.gpuResource: is empty, so workers.podSpec.resourceClaims has to request the 8 GPUs of a worker",
        'workers: {gpus: 8, gpuResource: "", podSpec: {resourceClaims: [{name: a, resourceClaimTemplateName: b}]}}',
    ),
    "gang-and-scheduler": (
        "{gang: {scheduler: volcano}, launcher: {schedulerName: mine}}",
        'launcher.schedulerName: is "mine", but with gang.scheduler volcano one scheduler places all pods of the job',
        "launcher: {schedulerName: mine}",
    ),
    "user-of-a-role": (
        "workers: {securityContext: {runAsUser: 7}}",
        "workers.securityContext.runAsUser: all pods of a job have the same user; use the top-level runAsUser",
        "{runAsUser: 7, workers: {securityContext: {runAsGroup: 7}}}",
    ),
    "group-of-roots-key": (
        "{podSecurity: baseline, securityContext: {fsGroup: 5000}}",
        "securityContext.fsGroup: 5000 would let a group read root's SSH key, which ssh then refuses; use "
        "supplementalGroups",
        "{podSecurity: baseline, securityContext: {supplementalGroups: [5000]}}",
    ),
    "group-of-roots-key-of-plain": (
        "{podSecurity: baseline, securityContext: {fsGroup: 5000}, job: {kind: Plain}}",
        "securityContext.fsGroup: 5000 would let a group read root's SSH key",
        "{podSecurity: baseline, securityContext: {fsGroup: 5000}, framework: pytorch}",
    ),
    "volume-of-the-clusters-user": (
        "{runAsUser: cluster, volumes: [{name: user, emptyDir: {}}]}",
        'volumes[0].name: "user" is the name of a volume that the job itself has; choose another name',
        "{framework: pytorch, runAsUser: cluster, volumes: [{name: user, emptyDir: {}}]}",
    ),
    "init-container-of-the-clusters-user": (
        "{runAsUser: cluster, initContainers: [{name: distrain-user, image: a}]}",
        'initContainers[0].name: "distrain-user" is already the name of a container of the job',
        "initContainers: [{name: distrain-user, image: a}]",
    ),
    "port-of-the-clusters-user": (
        "{runAsUser: cluster, ssh: {port: 22}}",
        "ssh.port: 22 is below 1024, which only root may use, but the pods run as user cluster; set ssh.port to 2222",
        "{runAsUser: cluster, ssh: {port: 2222}}",
    ),
    "unsafe-sysctl": (
        "{podSecurity: baseline, securityContext: {sysctls: [{name: net.core.somaxconn, value: '1'}]}}",
        "securityContext: sysctls net.core.somaxconn is forbidden by podSecurity baseline; remove it, or "
        "set a less strict",
        "{podSecurity: baseline, securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}}",
    ),
    "selinux-user": (
        "securityContext: {seLinuxOptions: {user: system_u}}",
        "securityContext: seLinuxOptions.user system_u is forbidden by podSecurity restricted",
        "securityContext: {seLinuxOptions: {level: 's0:c1', type: container_t}}",
    ),
    "privileged-container": (
        "launcher: {containerSecurityContext: {privileged: true}}",
        "launcher.containerSecurityContext: privileged is forbidden by podSecurity restricted",
        "{podSecurity: privileged, launcher: {containerSecurityContext: {privileged: true}}}",
    ),
    "capability-under-baseline": (
        "{podSecurity: baseline, workers: {containerSecurityContext: {capabilities: {add: [IPC_LOCK]}}}}",
        "workers.containerSecurityContext: capabilities.add IPC_LOCK is forbidden by podSecurity baseline",
        "{podSecurity: privileged, workers: {containerSecurityContext: {capabilities: {add: [IPC_LOCK]}}}}",
    ),
    "sidecar-that-never-ends": (
        "launcher: {sidecars: [{name: a, image: b}]}",
        "launcher.sidecars[0].restartPolicy: only a native sidecar ends when the main container ends; set "
        "it to `Always`",
        "launcher: {sidecars: [{name: a, image: b, restartPolicy: Always}]}",
    ),
    "native-sidecar-of-an-old-operator": (
        "{job: {apiVersion: v1alpha2}, initContainers: [{name: a, image: b, restartPolicy: Always}]}",
        "initContainers[0].restartPolicy: the operator of MPIJob v1alpha2 ignores this field, so the "
        "container would not run as a sidecar, and the main container would start only after it has ended",
        "{job: {apiVersion: v1alpha2}, initContainers: [{name: a, image: b}]}",
    ),
    "container-of-the-top-in-another-list": (
        "{initContainers: [{name: a, image: b}], launcher: {sidecars: [{name: a, image: b, restartPolicy: Always}]}}",
        'launcher.sidecars[0].name: "a" is already the name of a container of the job, or of another '
        "container of yours",
        "{initContainers: [{name: a, image: b}], launcher: {initContainers: [{name: a, image: b}]}}",
    ),
    "container-named-like-the-launcher": (
        "initContainers: [{name: launcher, image: b}]",
        'initContainers[0].name: "launcher" is already the name',
        "workers: {initContainers: [{name: launcher, image: b}]}",
    ),
    "env-of-a-role-twice": (
        "workers: {env: [{name: A}, {name: A}]}",
        "workers.env[1].name: A is already set, from workers.env[0]; remove it in one place",
        "{env: [{name: A}], workers: {env: [{name: A}]}}",
    ),
    "env-of-a-role-that-the-chart-sets": (
        "{network: {ncclDebug: INFO}, workers: {env: [{name: NCCL_DEBUG}]}}",
        "workers.env[0].name: NCCL_DEBUG is already set, from network.*; remove it in one place",
        "workers: {env: [{name: NCCL_DEBUG}]}",
    ),
    "label-of-a-role": (
        "workers: {labels: {app.kubernetes.io/component: a}}",
        "workers.labels: app.kubernetes.io/component is a label that the job itself sets; remove it",
        "workers: {labels: {component: a}}",
    ),
    "annotation-of-a-role": (
        "workers: {annotations: {scheduling.k8s.io/group-name: a}}",
        "workers.annotations: scheduling.k8s.io/group-name is an annotation that the job itself sets; remove it",
        "workers: {annotations: {group-name: a}}",
    ),
    "volume-that-the-launcher-lacks": (
        "{volumes: [{name: a, emptyDir: {}}], launcher: {volumeMounts: [{name: a, mountPath: /a}]}}",
        'launcher.volumeMounts[0].name: "a" is not in launcher.volumes; add it there',
        "{volumes: [{name: a, emptyDir: {}}], workers: {volumeMounts: [{name: a, mountPath: /a}]}}",
    ),
    "volume-of-the-job": (
        "launcher: {volumes: [{name: tmp, emptyDir: {}}]}",
        'launcher.volumes[0].name: "tmp" is the name of a volume that the job itself has; choose another name',
        "launcher: {volumes: [{name: temp, emptyDir: {}}]}",
    ),
    "host-path-of-a-role": (
        "workers: {volumes: [{name: a, hostPath: {path: /a}}]}",
        "workers.volumes[0].hostPath: podSecurity restricted forbids it; use a persistentVolumeClaim, or --set",
        "{podSecurity: privileged, workers: {volumes: [{name: a, hostPath: {path: /a}}]}}",
    ),
    "role-that-the-kind-lacks": (
        "servers: {podSpec: {dnsPolicy: Default}}",
        "servers.podSpec: is set, but this job is an MPIJob, which has no server; remove it",
        "servers: {x-podSpec: {dnsPolicy: Default}}",
    ),
}


# For each place of podSpec, the values of a job that has this place.
PLACES = {
    "podSpec": "{framework: pytorch, ",
    "workers.podSpec": "{",
    "launcher.podSpec": "{job: {kind: Plain}, ",
    "servers.podSpec": "{strategy: parameter-server, ",
    "scheduler.podSpec": "{framework: mxnet, strategy: parameter-server, ",
}


@pytest.mark.parametrize("field", ["hostPID", "shareProcessNamespace"])
@pytest.mark.parametrize("place", PLACES)
def test_containers_see_only_their_own_processes(helm: Path, tmp_path: Path, place: str, field: str) -> None:
    before = f"{PLACES[place]}podSecurity: privileged, {place.replace('.', ': {')}: {{{field}: "
    after = "}" * before.count("{")

    assert_refused_and_neighbour_accepted(
        helm,
        tmp_path,
        f"{before}true{after}",
        f"{place}.{field}: is true, but the scripts of distrain signal process 1 of their container, and find ranks "
        "among all processes that they see, so a container must see only its own processes; remove it",
        f"{before}false{after}",
    )


@pytest.mark.parametrize("case", CASES)
def test_rule_refuses_and_accepts_a_neighbour(helm: Path, tmp_path: Path, case: str) -> None:
    assert_refused_and_neighbour_accepted(helm, tmp_path, *CASES[case])


def test_value_at_the_top_that_no_role_can_take_is_named_once(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("resources: {limits: {cpu: 1}, requests: {cpu: 2, a.b/c: 1}}", encoding="utf-8")

    message = refusal(helm, "--values", str(values))

    assert message.count("distrain: ") == 2


def test_native_sidecar_needs_a_cluster_that_knows_it(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("workers: {sidecars: [{name: a, image: b, restartPolicy: Always}]}", encoding="utf-8")
    real = ("--values", str(values), "--api-versions", "apiregistration.k8s.io/v1",
            "--api-versions", "kubeflow.org/v2beta1/MPIJob", "--kube-version")  # fmt: skip

    message = refusal(helm, *real, "1.28.3")

    assert (
        "workers.sidecars[0].restartPolicy: native sidecars need Kubernetes 1.29 or newer, and this cluster"
    ) in message
    render(helm, *real, "1.29.0")


def test_data_may_lie_on_a_volume_of_the_workers(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    volume = "volumes: [{name: d, persistentVolumeClaim: {claimName: c}}], volumeMounts: [{name: d, mountPath: /data}]"
    values.write_text(f"{{data: {{uri: /data/a}}, workers: {{{volume}}}}}", encoding="utf-8")

    assert "--data=/data/a" in render(helm, "--values", str(values)).program
