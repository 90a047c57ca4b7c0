"""Define a node."""

from __future__ import annotations

from msgspec import field

from distrain.kube.objects import Kube, Metadata
from distrain.kube.quantities import Amounts


class Taint(Kube):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Kube):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Kube):
    allocatable: Amounts | None = None
    capacity: Amounts | None = None


class Node(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
