"""Report on the nodes: how many accept pods, their GPUs by model, and GPUs without a device plugin.

Pure functions. A GPU is an extended resource with a vendor's name. Only node labels tell the GPU's model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from distrain import kube
from distrain.check.cluster_state import ClusterState
from distrain.doctor.findings import ABSENT, MISSING, OK, UNKNOWN, Finding, counted, some
from distrain.doctor.survey import Survey, Unread
from distrain.kube.gpus import GPU
from distrain.kube.quantities import allocatable
from distrain.scheduler.taint_toleration import CONDITION_TAINTS, untolerated

SECTION = "nodes"
# The node labels that name the GPU's model; the vendors' labels come before the labels of the clouds.
MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
)
# These labels show that a node has a GPU, but not which model. They come from NVIDIA's feature discovery, or from Node
# Feature Discovery for a PCI device with NVIDIA's vendor number 10de.
PRESENT = re.compile(r"nvidia\.com/gpu\.present|feature\.node\.kubernetes\.io/pci-(\w+_)?10de\.present")


def findings(survey: Survey) -> list[Finding]:
    """Report how many nodes accept pods, and for each GPU resource and model, how many GPUs exist and are free."""
    nodes = survey.nodes
    if isinstance(nodes, Unread):
        return [Finding(SECTION, name, UNKNOWN, nodes.why) for name in ("nodes", "GPUs")]
    found = [_taking_pods(nodes), *_gpus(nodes, survey.state)]
    without = [node for node in nodes if _has_labels(node) and not offered(node)]
    return [*found, _without_plugin(without, survey.kubectl_flags)] if without else found


def _taking_pods(nodes: Sequence[kube.Node]) -> Finding:
    taking = [node for node in nodes if takes_pods(node)]
    details = {"nodes": len(nodes), "taking_pods": len(taking)}
    found = f"{len(taking)} of {counted(len(nodes), 'node')} {'takes' if len(nodes) == 1 else 'take'} pods"
    if taking:
        return Finding(SECTION, "nodes", OK, found, needed=True, details=details)
    return Finding(SECTION, "nodes", MISSING, found, "add a node, or uncordon one that is ready", True, details)


def takes_pods(node: kube.Node) -> bool:
    """Tell whether a node is not cordoned and has no taint for an unhealthy condition.

    Taints that an administrator has set are ignored, because pods may tolerate them.
    """
    return not node.spec.unschedulable and not any(taint.key in CONDITION_TAINTS for taint in node.spec.taints or ())


def _gpus(nodes: Sequence[kube.Node], state: ClusterState | Unread) -> list[Finding]:
    groups: dict[tuple[str, str], list[kube.Node]] = {}
    for node in nodes:
        for resource in offered(node):
            groups.setdefault((resource, _model(node)), []).append(node)
    if not groups and any(map(_has_labels, nodes)):
        return []
    if not groups:
        words = "no node offers any"
        return [Finding(SECTION, "GPUs", ABSENT, words, "add GPU nodes, or train on CPUs with workers.gpus=0")]
    return [_group(resource, model, groups[resource, model], state) for resource, model in sorted(groups)]


def _group(resource: str, model: str, nodes: Sequence[kube.Node], state: ClusterState | Unread) -> Finding:
    total = sum(offered(node)[resource] for node in nodes)
    free = None if isinstance(state, Unread) else _free(resource, nodes, state)
    details = {"resource": resource, "model": model, "nodes": len(nodes), "allocatable": total, "free": free}
    amount = f"{total} GPUs, how many are free is unknown" if free is None else f"{free} of {total} GPUs free"
    model_words = f" of {model}" if model else "; no label names their model"
    found = f"{amount} on {counted(len(nodes), 'node')}{model_words}"
    taints = sorted({f"{taint.key}:{taint.effect}" for node in nodes for taint in untolerated(node, kube.PodSpec())})
    if not taints:
        return Finding(SECTION, resource, OK, found, details=details)
    found += f"; taints on them: {some(taints)}"
    return Finding(SECTION, resource, OK, found, "tolerate them with workers.tolerations", details=details)


def _free(resource: str, nodes: Iterable[kube.Node], state: ClusterState) -> int:
    names = {node.metadata.name for node in nodes if takes_pods(node)}
    return sum(max(0, node.free.get(resource, 0)) for node in state.free() if node.name in names)


def _without_plugin(nodes: Sequence[kube.Node], kubectl_flags: str) -> Finding:
    names = [node.metadata.name for node in nodes]
    models = some(sorted({_model(node) for node in nodes} - {""}))
    found = f"{counted(len(nodes), 'node')} with labels of GPUs{f' ({models})' if models else ''} and no GPU to offer"
    look = f"`kubectl get pods{kubectl_flags} --all-namespaces --field-selector spec.nodeName={names[0]}`"
    install = f"install the GPU operator or the vendor's device plugin, or see why it does not run there: {look}"
    return Finding(SECTION, "device plugin", MISSING, f"{found}: {some(names)}", install, details={"nodes": names})


def _has_labels(node: kube.Node) -> bool:
    labels = node.metadata.labels or {}
    return bool(_model(node)) or any(PRESENT.fullmatch(key) and value == "true" for key, value in labels.items())


def _model(node: kube.Node) -> str:
    labels = node.metadata.labels or {}
    return next((labels[key] for key in MODEL_LABELS if labels.get(key)), "")


def offered(node: kube.Node) -> dict[str, int]:
    """Return the number of the node's allocatable GPUs, by resource name."""
    amounts = allocatable(node)
    return {name: amount for name, amount in amounts.items() if "/" in name and GPU.search(name) and amount > 0}
