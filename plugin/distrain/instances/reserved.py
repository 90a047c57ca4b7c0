"""Estimate what a node of an instance type offers to a job's pods: the type's size without the reserved parts.

The sources below were read on 2026-11-28.

Firmware and kernel use 7.5% of the memory, and kubelet does not count this part as the node's memory. This is
Karpenter's default of --vm-memory-overhead-percent (https://karpenter.sh/docs/reference/settings/).

EKS reserves 255 MiB plus 11 MiB for each pod, and CPUs by the tiers below (nodeadm's kubelet defaults in
https://github.com/awslabs/amazon-eks-ami). The largest number of pods per node, for types of this size, comes from
https://karpenter.sh/docs/reference/instance-types/. The CPUs and the memory there agree with the estimate.

GKE reserves CPUs by the same tiers, and memory by the tiers below
(https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes).

AKS 1.29 and later reserves 50 MB plus 20 MB for each pod, but at most a quarter of the memory. The table of CPUs of AKS
ends at 64 cores (https://learn.microsoft.com/azure/aks/node-resource-reservations). For cores above 64, this module
uses the table's last step: 10m for each core.

EKS, GKE and AKS all reserve 100 MiB for eviction.

Nodes with EFA reserve 5128 huge pages of 2 MiB (https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html).

The requests of DaemonSets are distrain's own estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

from distrain.instances.table import AKS, EKS, GKE, Instance
from distrain.kube.quantities import Units

MIB, GIB = 2**20, 2**30
EFA, HUGE_PAGES = "vpc.amazonaws.com/efa", "hugepages-2Mi"
KERNEL_SHARE = 0.075
EVICTION = 100 * MIB
HUGE_PAGES_OF_EFA = 5128 * 2 * MIB
# Estimated requests of the cluster's own DaemonSets on each node: network, proxy, storage, logs, metrics. CPUs are
# millicores.
DAEMONS: Units = {"cpu": 500, "memory": GIB}
# On EKS, a node with up to 8 CPUs runs at most 58 pods, a node with up to 30 CPUs at most 234, and a larger node at
# most 737. On AKS with its overlay network, a node runs at most 250 pods by default.
EKS_PODS = ((8, 58), (30, 234), (None, 737))
AKS_PODS = 250
PODS = 110
# Each entry is (end, millicores). kubelet reserves this many millicores for each core from the previous entry's end to
# this end. The last entry is for all further cores.
EKS_CPU = ((1, 60), (2, 10), (4, 5), (None, 2.5))
AKS_CPU = ((1, 60), (2, 40), (4, 20), (None, 10))
# Each entry is (end in GiB, share). GKE reserves this share of the memory from the end of the previous entry to this
# end. The last entry is for all further memory.
GKE_MEMORY = ((4, 0.25), (8, 0.2), (16, 0.1), (128, 0.06), (None, 0.02))


def offered(instance: Instance, *, efa: bool) -> Units:
    """Return the resources of a node for the job's pods: millicores, bytes, and devices.

    With `efa`, the node has the type's EFA interfaces, and EFA's driver reserves huge pages.
    """
    total = round(instance.memory * GIB * (1 - KERNEL_SHARE))
    devices: Units = {instance.gpu_resource: instance.gpus} if instance.gpus else {}
    if efa and instance.efa:
        devices |= {EFA: instance.efa, HUGE_PAGES: HUGE_PAGES_OF_EFA}
    memory = total - _kubelets_memory(instance, total) - EVICTION - devices.get(HUGE_PAGES, 0) - DAEMONS["memory"]
    cpu = instance.cpus * 1000 - _kubelets_cpu(instance) - DAEMONS["cpu"]
    return {"cpu": cpu, "memory": memory // MIB * MIB, "pods": PODS, **devices}


def _kubelets_cpu(instance: Instance) -> int:
    return round(_tiered(instance.cpus, AKS_CPU if instance.provider == AKS else EKS_CPU))


def _kubelets_memory(instance: Instance, total: int) -> int:
    if instance.provider == GKE:
        return round(_tiered(total / GIB, GKE_MEMORY) * GIB)
    if instance.provider == EKS:
        pods = next(most for cpus, most in EKS_PODS if cpus is None or instance.cpus <= cpus)
        return (11 * pods + 255) * MIB
    return min((20 * AKS_PODS + 50) * 10**6, total // 4)


def _tiered(amount: float, tiers: Sequence[tuple[int | None, float]]) -> float:
    """Return how much of a node's cores or memory is reserved for kubelet and the system.

    A tier is (end, share): the share applies to the part of the amount from the end of the previous tier to this end.
    """
    reserved, begin = 0.0, 0
    for end, share in tiers:
        reserved += max(0.0, (amount if end is None else min(amount, end)) - begin) * share
        begin = end or begin
    return reserved
