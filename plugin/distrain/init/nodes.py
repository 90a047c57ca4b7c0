"""Suggest values for a first run from the nodes: the name of the GPU resource, the number of GPUs, and tolerations.

Pure functions over nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from distrain import kube
from distrain.derive.room import GIBIBYTE, StatedNodes
from distrain.derive.split import Split
from distrain.doctor.gpus import offered, takes_pods
from distrain.kube.gpus import GPU
from distrain.kube.quantities import text
from distrain.scheduler.taint_toleration import untolerated

# The chart's default for the value workers.gpuResource.
NVIDIA = "nvidia.com/gpu"
# Two workers are enough to show that a run is distributed.
NODES = 2
# The smallest common GPU servers have 4 CPUs and 16 GiB for each GPU, and the operating system and Kubernetes use a
# part of this.
GPU_CPUS, GPU_GIBIBYTES = 3, 12


class SuggestedNodes(Struct, frozen=True):
    """The number of GPUs on the largest nodes, and how many such nodes there are.

    `left_out` are the taints of nodes that were not counted.
    """

    gpu_resource: str
    node_gpus: int
    nodes: int
    tolerations: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """Return the number of GPUs for a first run: all GPUs of two nodes, or of one node if there is only one."""
        return self.node_gpus * min(NODES, self.nodes)


class AssumedNodes(StatedNodes, frozen=True):
    """Nodes that the user describes, with the CPU and memory of common GPU servers, minus what the system uses."""

    def share(self, split: Split) -> dict[str, str]:
        return {"cpu": str(split.gpus * GPU_CPUS), "memory": text("memory", split.gpus * GPU_GIBIBYTES * GIBIBYTE)}


def stated(node_gpus: int) -> SuggestedNodes:
    """Return a suggestion for nodes with this number of GPUs, including the common toleration."""
    return SuggestedNodes(NVIDIA, node_gpus, NODES, (_toleration(NVIDIA),))


def of_nodes(nodes: Sequence[kube.Node]) -> SuggestedNodes:
    """Suggest values from a cluster's nodes. If the nodes have several GPU resources, choose the most common one."""
    taking = [node for node in nodes if takes_pods(node)]
    totals: dict[str, int] = {}
    for node in taking:
        for resource, amount in offered(node).items():
            totals[resource] = totals.get(resource, 0) + amount
    if not totals:
        return SuggestedNodes(NVIDIA, 0, len(taking), ())
    resource = max(sorted(totals), key=lambda name: totals[name])
    with_gpus = [node for node in taking if resource in offered(node)]
    # A taint that is not about GPUs reserves a node for other users, so such a node does not count. If every GPU node
    # has such a taint, count all GPU nodes.
    usable = [node for node in with_gpus if all(map(_is_about_gpus, _taints(node)))] or with_gpus
    taints = sorted({taint for node in usable for taint in _taints(node)})
    left_out = {taint for node in with_gpus for taint in _taints(node)} - set(taints)
    amounts = [offered(node)[resource] for node in usable]
    return SuggestedNodes(
        gpu_resource=resource,
        node_gpus=max(amounts),
        nodes=amounts.count(max(amounts)),
        tolerations=tuple(_toleration(key, effect) for key, effect in taints) or (_toleration(resource),),
        left_out=tuple(sorted(f"{key}:{effect}" for key, effect in left_out)),
    )


def _is_about_gpus(taint: tuple[str, str]) -> bool:
    return bool(GPU.search(taint[0])) or "accelerator" in taint[0]


def _taints(node: kube.Node) -> list[tuple[str, str]]:
    return [(taint.key, taint.effect) for taint in untolerated(node, kube.PodSpec())]


def _toleration(key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": effect}
