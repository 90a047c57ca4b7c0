"""Create Node objects of an instance type, as the API server would return them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distrain import kube
from distrain.instances.reserved import offered
from distrain.instances.table import Instance
from distrain.kube.node import NodeSpec
from distrain.kube.quantities import text

HOSTNAME = "kubernetes.io/hostname"
# The table has no disk sizes, because the node group sets the size of its nodes' disks.
DISK: kube.Amounts = {"ephemeral-storage": 2**60}


def amounts(instance: Instance, *, efa: bool) -> kube.Amounts:
    """Return what a node of this type offers to a job's pods, as quantities."""
    units = offered(instance, efa=efa)
    return {**DISK, **{resource: text(resource, amount) for resource, amount in units.items()}}


def node(
    name: str,
    instance: Instance,
    *,
    efa: bool,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[kube.Taint] = (),
    devices: Mapping[str, int] | None = None,
) -> kube.Node:
    """Return a node with the provider's labels and resources, and with additional labels and resources."""
    metadata = kube.Metadata(name, labels={HOSTNAME: name, **instance.labels, **(labels or {})})
    status = kube.NodeStatus({**amounts(instance, efa=efa), **(devices or {})})
    return kube.Node(metadata, NodeSpec(taints=list(taints)), status)
