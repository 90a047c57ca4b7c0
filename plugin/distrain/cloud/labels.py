"""Tell which labels in the workers' nodeSelector must be set on a node group, and which no node group can have."""

from __future__ import annotations

from collections.abc import Mapping

from distrain.errors import ValuesError
from distrain.instances.table import AKS, EKS, GKE, INSTANCE_TYPE, Instance

ZONE = "topology.kubernetes.io/zone"
# For each provider, the labels that contain the name of a node's group.
GROUP = {
    EKS: ("alpha.eksctl.io/nodegroup-name", "eks.amazonaws.com/nodegroup"),
    GKE: ("cloud.google.com/gke-nodepool",),
    AKS: ("agentpool", "kubernetes.azure.com/agentpool"),
}
# For each label of spot nodes, the provider's setting that creates a node group of spot nodes.
SPOT = {
    "eks.amazonaws.com/capacityType": "`spot: true`",
    "cloud.google.com/gke-spot": "--spot",
    "cloud.google.com/gke-provisioning": "--spot",
    "kubernetes.azure.com/scalesetpriority": "--priority Spot",
}
# Only Kubernetes, the provider or an add-on sets labels of these domains.
RESERVED = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io", "amazonaws.com", "azure.com", "nvidia.com")


def provided(instance: Instance, group: str, zone: str) -> dict[str, str]:
    """Return the labels that the provider sets on each node of the group.

    If `zone` is empty, the label of the zone is left out, because the provider chooses the zone.
    """
    names = dict.fromkeys(GROUP[instance.provider], group)
    return {**instance.labels, **names, **({ZONE: zone} if zone else {})}


def lacking(selector: Mapping[str, str], given: Mapping[str, str]) -> tuple[str, str] | None:
    """Return key and value of the nodeSelector's first label that a node with the labels `given` can never have."""
    pairs = sorted(selector.items())
    return next(((key, value) for key, value in pairs if _is_reserved(key) and given.get(key) != value), None)


def to_set(selector: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a nodeSelector that the group has to set itself."""
    return {key: value for key, value in sorted(selector.items()) if given.get(key) != value}


def refuse_lacking(path: str, selector: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Raise ValuesError if the group cannot have a label of the nodeSelector at this path."""
    if found := lacking(selector, given):
        key, value = found
        has = f"the nodes have {given[key]}" if key in given else "a node group cannot set this label"
        flag = {INSTANCE_TYPE: "--instance" if key in given else "", ZONE: "--zone"}.get(key)
        step = f"give {value} with {flag}, or correct the nodeSelector" if flag else "remove it from the nodeSelector"
        if key in SPOT:
            step = f"remove it, or create the GPU node group yourself, as a spot group with {SPOT[key]}"
        raise ValuesError(f"{path}.{key}: asks for {value}, but {has}; {step}")


def _is_reserved(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == end or domain.endswith(f".{end}") for end in RESERVED)
