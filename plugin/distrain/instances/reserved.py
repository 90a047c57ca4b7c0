"""Estimate what a node of an instance type offers to a job's pods: less than the type's figures.

Sources, read 2026-11-28:

- memory that firmware and kernel keep, which `free` lacks and kubelet does not count: 7.5%, Karpenter's default of
  --vm-memory-overhead-percent (https://karpenter.sh/docs/reference/settings/);
- EKS: 11 MiB for each pod and 255 MiB, and the CPU tiers below
  (https://github.com/awslabs/amazon-eks-ami, nodeadm's kubelet defaults; the numbers of pods are the largest for such
  types in https://karpenter.sh/docs/reference/instance-types/, whose CPUs and memory agree with the result);
- GKE: the same CPU tiers, and the memory tiers below
  (https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes);
- AKS 1.29 and later: 20 MB for each pod and 50 MB, no more than a quarter of the memory; a table of CPUs up to 64
  cores, continued here by its last step of 10m for each core
  (https://learn.microsoft.com/azure/aks/node-resource-reservations);
- eviction: 100 MiB on all three;
- huge pages: 5128 of 2 MiB on nodes with EFA (https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html).

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
# Each entry of EKS_PODS has a number of CPUs, and the largest number of pods per node on EKS types with at most that
# number of CPUs. AKS_PODS is AKS's default with its overlay network.
EKS_PODS = ((8, 58), (30, 234), (None, 737))
AKS_PODS = 250
PODS = 110
# Each entry has a number of cores, and the millicores that kubelet reserves for each core up to that number. The last
# entry applies to all further cores.
EKS_CPU = ((1, 60), (2, 10), (4, 5), (None, 2.5))
AKS_CPU = ((1, 60), (2, 40), (4, 20), (None, 10))
# Each entry has a number of GiB, and the share of the memory up to that number that GKE reserves.
GKE_MEMORY = ((4, 0.25), (8, 0.2), (16, 0.1), (128, 0.06), (None, 0.02))


def offered(instance: Instance, *, efa: bool) -> Units:
    """Return the resources of a node for the job's pods: millicores, bytes, and devices.

    With `efa` the nodes have EFA interfaces, and the huge pages that EFA's driver reserves.
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
    """Add up the shares of an amount; each tier ends at its first number, and the next begins there."""
    reserved, begin = 0.0, 0
    for end, share in tiers:
        reserved += max(0.0, (amount if end is None else min(amount, end)) - begin) * share
        begin = end or begin
    return reserved
