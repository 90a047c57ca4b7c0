"""NodeVolumeLimits: a node can attach only a limited number of volumes of a CSI driver.

A node's limits are in the CSINode with the node's name. A volume counts only once per node, even if several pods on the
node use it. So a claim that the job's pods share counts once on each node, however many of these pods run there. If
each pod has its own claim, the volumes that a node can still attach are treated as a resource, like CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct, field

from distrain import kube
from distrain.kube.quantities import Units
from distrain.kube.storage import CSINode, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from distrain.pods.counted_pod import CountedPod
from distrain.scheduler.volume_binding import class_of

PREFIX = "attachable volumes of "
# This is the limit for a node whose CSINode sets none: more volumes than any job has.
UNLIMITED = 10**9
# The CSI drivers that have replaced Kubernetes' own volume plugins: IN_TREE by the type of a volume's source, and
# MIGRATED by the provisioner. Kubernetes pkg/scheduler/framework/plugins/nodevolumelimits/utils.go: isCSIMigrationOn
IN_TREE = {
    "aws_elastic_block_store": "ebs.csi.aws.com",
    "azure_disk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gce_persistent_disk": "pd.csi.storage.gke.io",
}
MIGRATED = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
}

# The name of the CSI driver, and the name of the PersistentVolume. The scheduler counts by the driver's volume handle,
# not by the PersistentVolume's name. The two counts differ only if several PersistentVolumes have the same handle.
CsiVolume = tuple[str, str]
Names = Mapping[str, set[CsiVolume]]


class VolumeNeeds(Struct, frozen=True):
    """The CSI volumes of one role's pods. `shared` are the volumes that several pods use.

    `own` maps a driver to the number of volumes that each pod uses without sharing them. `existing` are the drivers of
    those volumes in `own` whose claims already exist. A node may already have attached these volumes.
    """

    replicas: int = 0
    shared: frozenset[CsiVolume] = frozenset()
    own: Mapping[str, int] = field(default_factory=dict)
    existing: frozenset[str] = frozenset()

    @property
    def drivers(self) -> set[str]:
        return {*self.own, *(driver for driver, _ in self.shared)} if self.replicas else set()

    def shared_of(self, driver: str) -> set[CsiVolume]:
        return {volume for volume in self.shared if volume[0] == driver}


class Attached(Struct, frozen=True):
    """The volumes on one node: `used` by running pods, or `reserved` by nominated pods and VolumeAttachments.

    A `reserved` volume counts towards the node's limit. It is uncertain whether a pod of the job on this node can share
    the volume.
    """

    used: Collection[CsiVolume] = ()
    reserved: Collection[CsiVolume] = ()

    def number(self, driver: str) -> int:
        return sum(volume[0] == driver for volume in {*self.used, *self.reserved})


class AttachLimits(Struct, frozen=True):
    """The limits that matter for a job (driver -> node -> number of volumes), and the volumes that its roles need.

    `claims` has the CSI volumes of all claims in the cluster, by namespace and name. `attachments` has the volumes of
    VolumeAttachments, by node.
    """

    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    needs: Mapping[str, VolumeNeeds] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], CsiVolume] = field(default_factory=dict)
    attachments: Names = field(default_factory=dict)

    def volumes_of(self, pod: CountedPod) -> set[CsiVolume]:
        """Return the pod's volumes whose drivers have limits."""
        found = {self.claims.get((pod.namespace, name)) for name in _claim_names(pod)}
        return {volume for volume in found if volume}

    def free(self, node: str, attached: Attached) -> Units:
        """Return, by driver, how many more volumes the node can attach.

        Drivers whose volumes are all shared are left out.
        """
        return {f"{PREFIX}{driver}": self._left(driver, node, attached) for driver in sorted(self._own_drivers())}

    def request(self, role: str) -> Units:
        own = self.needs.get(role, VolumeNeeds()).own
        return {f"{PREFIX}{driver}": number for driver, number in own.items() if driver in self.limits}

    def is_exceeded(self, role: str, node: str, attached: Attached) -> bool:
        """Tell whether the node cannot attach the volumes of even a single pod of the role."""
        needs = self.needs.get(role, VolumeNeeds())
        for driver in needs.drivers & set(self.limits):
            number = len(self._missing(needs, driver, attached)) + needs.own.get(driver, 0)
            if number > max(0, self._left(driver, node, attached, is_shared=False)):
                return True
        return False

    def contested(self, node: str, attached: Attached) -> Iterator[str]:
        """Yield the drivers whose limit admits more or fewer pods of the job, depending on the order of these pods."""
        for driver, limits in self.limits.items():
            users = [needs for needs in self.needs.values() if driver in needs.drivers]
            shared = set().union(*(needs.shared_of(driver) for needs in users))
            most = len(shared - {*attached.used}) + sum(each.replicas * each.own.get(driver, 0) for each in users)
            is_short = node in limits and most > limits[node] - attached.number(driver)
            if is_short and not self._is_orderless(driver, users, shared, attached):
                yield driver

    def _is_orderless(
        self, driver: str, users: Iterable[VolumeNeeds], shared: set[CsiVolume], attached: Attached
    ) -> bool:
        """Tell whether the number of pods that fit does not depend on their order.

        This is so if all pods need the same shared volumes, and if it is certain which of the pods' volumes the node
        has already attached.
        """
        is_certain = not (shared - {*attached.used}) & {*attached.reserved}
        return is_certain and all(needs.shared_of(driver) == shared and driver not in needs.existing for needs in users)

    def _left(self, driver: str, node: str, attached: Attached, *, is_shared: bool = True) -> int:
        """Return how many more volumes the node can attach.

        If all pods use the shared volumes, these are subtracted first.
        """
        limit = self.limits[driver].get(node)
        if limit is None:
            return UNLIMITED
        users = [needs for needs in self.needs.values() if driver in needs.drivers]
        shared = set().union(*(needs.shared_of(driver) for needs in users))
        is_needed = is_shared and self._is_orderless(driver, users, shared, attached)
        return limit - attached.number(driver) - (len(shared - {*attached.used}) if is_needed else 0)

    def _missing(self, needs: VolumeNeeds, driver: str, attached: Attached) -> set[CsiVolume]:
        return needs.shared_of(driver) - {*attached.used, *attached.reserved}

    def _own_drivers(self) -> set[str]:
        return {driver for needs in self.needs.values() for driver in needs.own if driver in self.limits}


def limits_of(csi_nodes: Iterable[CSINode], needs: Mapping[str, VolumeNeeds]) -> dict[str, dict[str, int]]:
    """Return the limits of the drivers that the job uses, as driver -> node -> number of volumes."""
    drivers = set().union(*(each.drivers for each in needs.values()))
    found: dict[str, dict[str, int]] = {}
    for node in csi_nodes:
        for driver in node.spec.drivers or ():
            if driver.name in drivers and driver.allocatable and driver.allocatable.count is not None:
                found.setdefault(driver.name, {})[node.metadata.name] = driver.allocatable.count
    return found


def attachments_of(
    attachments: Iterable[VolumeAttachment], volumes: Mapping[str, PersistentVolume]
) -> dict[str, set[CsiVolume]]:
    """Return the volumes of the VolumeAttachments, by node.

    The scheduler counts only volumes that name a CSI driver.
    """
    found: dict[str, set[CsiVolume]] = {}
    for each in attachments:
        volume = volumes.get(each.spec.source.persistent_volume_name or "")
        if each.spec.attacher and volume and volume.spec.csi:
            found.setdefault(each.spec.node_name, set()).add((each.spec.attacher, volume.metadata.name))
    return found


def csi_volume(
    claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume], classes: Mapping[str, kube.StorageClass]
) -> CsiVolume | None:
    """Return the CSI volume of a claim.

    For a claim that is not bound yet, return the driver of its storage class, and the claim's own name.
    """
    volume = volumes.get(claim.spec.volume_name or "")
    if volume is None:
        known = classes.get(class_of(claim))
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        return (driver_of(known), name) if known and known.provisioner else None
    if source := volume.spec.csi:
        return source.driver, volume.metadata.name
    in_tree = (driver for name, driver in IN_TREE.items() if getattr(volume.spec, name) is not None)
    return next(((driver, volume.metadata.name) for driver in in_tree), None)


def driver_of(storage_class: kube.StorageClass) -> str:
    return MIGRATED.get(storage_class.provisioner, storage_class.provisioner)


def _claim_names(pod: CountedPod) -> Iterator[str]:
    for volume in pod.volumes:
        if volume.persistent_volume_claim:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral:
            yield f"{pod.name}-{volume.name}"
