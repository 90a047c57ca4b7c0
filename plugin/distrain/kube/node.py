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


class ContainerImage(Kube):
    names: list[str] | None = None


class ImagesStatus(Kube):
    images: list[ContainerImage] | None = None


class NodeImages(Kube):
    """A node with only its images.

    The images are read separately, because reading them with each node would make every check slower.
    """

    status: ImagesStatus = field(default_factory=ImagesStatus)

    @property
    def names(self) -> list[str]:
        """Return all names of all images."""
        return [name for image in self.status.images or () for name in image.names or ()]


class Node(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
