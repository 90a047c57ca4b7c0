"""Define persistent volumes, claims, storage classes, and the volumes that nodes attach."""

from __future__ import annotations

from msgspec import field

from distrain.kube.objects import Kube, Metadata, Resources
from distrain.kube.quantities import Amounts, Quantity
from distrain.kube.selectors import LabelSelector, NodeSelector


class ClaimSpec(Kube):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: Resources | None = None
    selector: LabelSelector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None

    @property
    def requests(self) -> Amounts:
        return (self.resources and self.resources.requests) or {}


class PersistentVolumeClaim(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class ClaimTemplate(Kube):
    """The template of a claim.

    In a StatefulSet, the name of the claim template is also the name of a volume of the pod.
    """

    metadata: Metadata = field(default_factory=Metadata)
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class ClaimReference(Kube):
    """The claim to which a volume is bound, or for which an administrator has reserved the volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinity(Kube):
    required: NodeSelector | None = None


class CsiSource(Kube):
    """A volume of a CSI driver.

    The driver's name for the volume is not read, because it may reveal where the volume is.
    """

    driver: str = ""


class InTreeSource(Kube):
    """A disk whose storage driver was once part of Kubernetes (in-tree). Today a CSI driver attaches the disk."""


class VolumeSpec(Kube):
    node_affinity: VolumeAffinity | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    capacity: Amounts | None = None
    claim_ref: ClaimReference | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    csi: CsiSource | None = None
    aws_elastic_block_store: InTreeSource | None = None
    azure_disk: InTreeSource | None = None
    cinder: InTreeSource | None = None
    gce_persistent_disk: InTreeSource | None = None


class VolumeStatus(Kube):
    phase: str | None = None


class PersistentVolume(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: VolumeSpec = field(default_factory=VolumeSpec)
    status: VolumeStatus = field(default_factory=VolumeStatus)


class LabelValues(Kube):
    key: str = ""
    values: list[str] | None = None


class Topology(Kube):
    match_label_expressions: list[LabelValues] | None = None


class StorageClass(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[Topology] | None = None


class CSIDriverSpec(Kube):
    storage_capacity: bool | None = None


class CSIDriver(Kube):
    """A CSI driver of the cluster.

    The driver's object says whether the scheduler must look at the free storage that the driver reports.
    """

    metadata: Metadata = field(default_factory=Metadata)
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Kube):
    """The free storage for volumes of one storage class, on the nodes that `node_topology` selects."""

    metadata: Metadata = field(default_factory=Metadata)
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeLimit(Kube):
    count: int | None = None


class CSINodeDriver(Kube):
    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Kube):
    drivers: list[CSINodeDriver] | None = None


class CSINode(Kube):
    """The CSI drivers on one node, and how many volumes of each driver the node can attach.

    The object has the node's name.
    """

    metadata: Metadata = field(default_factory=Metadata)
    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class AttachedSource(Kube):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Kube):
    attacher: str = ""
    node_name: str = ""
    source: AttachedSource = field(default_factory=AttachedSource)


class VolumeAttachment(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
