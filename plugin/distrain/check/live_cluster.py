"""Read the data for a check from a live cluster, as far as the user may read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.admission import runtime_class
from distrain.admission.pod_security import enforced, minor_of
from distrain.apiserver import paths
from distrain.check.candidate_nodes import candidate_nodes, unread
from distrain.check.cluster_state import ClusterState, take
from distrain.check.dependencies import (
    ApiKind,
    Dependencies,
    Named,
    by_name,
    counts_pods,
    ending,
    has_own_claims,
    labels_of,
    may_exist,
    namespace_of,
    own_pods,
    references,
    selects_namespaces,
    served_by_operators,
    uses_claims,
    with_storage,
)
from distrain.check.refusals import PreparedJob, prepare
from distrain.check.report import Report, report
from distrain.check.volumes.attach_limits import volume_needs
from distrain.check.volumes.free_storage import makes_volumes, needs_capacities
from distrain.errors import ForbiddenError, NotFoundError, UnreachableError
from distrain.kube.policy import LimitRange, PriorityClass, ResourceQuota, RuntimeClass
from distrain.kube.selectors import Labels
from distrain.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from distrain.scheduler.node_volume_limits import limits_of
from distrain.workload import gang_schedulers
from distrain.workload.controllers import ObjectName
from distrain.workload.counted_objects import CountedObject
from distrain.workload.manifest import Job

if TYPE_CHECKING:
    from distrain.apiserver.cluster import Cluster

T = TypeVar("T")


def check(
    cluster: Cluster, job: Job, namespace: str, gpu_resource: str | None = None, release: str | None = None
) -> Report:
    """Read the cluster and judge the job. The arguments and errors are those of `examined`."""
    return report(*examined(cluster, job, namespace, gpu_resource, release))


def examined(
    cluster: Cluster,
    job: Job,
    namespace: str,
    gpu_resource: str | None = None,
    release: str | None = None,
    more: Sequence[kube.Node] = (),
) -> tuple[PreparedJob, ClusterState]:
    """Read the job's dependencies and the state of the cluster.

    The pods of `release` are ignored. The nodes in `more` are counted as if they were in the cluster. Raises
    UnreachableError if nodes or pods cannot be read.
    """
    own = namespace_of(job, namespace)
    prepared = prepare(
        job,
        namespace,
        lambda part, where: _dependencies(cluster, part, where, release if where == own else None),
        gpu_resource,
    )
    nodes = [*cluster.nodes(), *more]
    chosen = candidate_nodes(prepared.job, nodes)
    # A pod that already uses one of the job's ReadWriteOncePod claims may run on any node. So read all pods in the
    # namespaces of these claims.
    beside = sorted({where for where, _ in prepared.constraints.exclusive_claims})
    state = take(nodes, lambda use: cluster.over_pods(use, chosen, beside), prepared.constraints, release)
    elsewhere = [] if chosen is None else [unread(len(nodes) - len(chosen))]
    return replace(prepared, unseen=(*prepared.unseen, *elsewhere)), state


def _dependencies(cluster: Cluster, job: Job, namespace: str, release: str | None) -> Dependencies:
    """Read only objects of kinds that the job's pods depend on. `unseen` names the kinds that the user may not read."""
    reader = _Reader(cluster, paths.namespace(namespace), namespace)
    path, where, storage = reader.path, f"of namespace {namespace}", "/apis/storage.k8s.io/v1/storageclasses"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    what = f"persistent volume claims {where}"
    claims = reader.named(uses_claims(job), f"{path}/persistentvolumeclaims", PersistentVolumeClaim, what)
    has_volumes = claims or has_own_claims(job) or job.created.by_name(PersistentVolumeClaim)
    kinds = {version: cluster.begin_kinds(version) for version, _ in served_by_operators(job)}
    namespaces = reader.namespaces(job)
    quotas = reader.listed(f"{path}/resourcequotas", ResourceQuota, f"ResourceQuotas {where}")
    has_pods = counts_pods(job, labels_of(namespaces), namespace)
    found = Dependencies(
        namespaces=labels_of(namespaces),
        ending_namespaces=ending(namespaces),
        quotas=quotas,
        limit_ranges=reader.listed(f"{path}/limitranges", LimitRange, f"LimitRanges {where}"),
        priority_classes=by_name(reader.listed(classes, PriorityClass, "PriorityClasses")),
        runtime_classes=dict(reader.runtime_classes(job)),
        claims=claims,
        volumes=reader.named(has_volumes, "/api/v1/persistentvolumes", PersistentVolume, "persistent volumes"),
        storage_classes=reader.named(has_volumes, storage, kube.StorageClass, "storage classes"),
        pods=reader.pods() if has_pods else None,
        missing=frozenset(reader.missing(job)),
        own=reader.own(release),
        unserved=frozenset(reader.unserved(job, kinds)),
        existing=frozenset(reader.existing(may_exist(job, quotas, namespace))),
        server_minor=reader.server_minor({**(labels_of(namespaces) or {}), **job.policies.labels}.values()),
        gang_schedulers=dict(reader.gang_schedulers(job)),
        unseen=reader.unseen,
        kubectl_flags=f"--namespace {namespace}{cluster.target.kubectl_cluster_flags}",
    )
    found = _with_capacities(with_storage(found, job), job, reader)
    return _with_attach_limits(found, job, reader)


def _with_capacities(found: Dependencies, job: Job, reader: _Reader) -> Dependencies:
    """If the free storage of a CSI driver decides where a new volume can be created, read this free storage."""
    storage = "/apis/storage.k8s.io/v1"
    if not makes_volumes(job, found):
        return found
    drivers = by_name(reader.allowed(f"{storage}/csidrivers", CSIDriver, "CSIDrivers"))
    found = replace(found, csi_drivers=drivers)
    if not needs_capacities(job, found):
        return found
    capacities = reader.allowed(f"{storage}/csistoragecapacities", CSIStorageCapacity, "CSIStorageCapacities")
    return replace(found, capacities=capacities)


def _with_attach_limits(found: Dependencies, job: Job, reader: _Reader) -> Dependencies:
    """If the job uses CSI volumes, read how many of them each node can attach.

    If a node has such a limit, also read the volumes that are attached to nodes, and the claims of all namespaces.
    """
    needs, storage = volume_needs(job, found), "/apis/storage.k8s.io/v1"
    if not any(each.drivers for each in needs.values()):
        return found
    csi_nodes = reader.allowed(f"{storage}/csinodes", CSINode, "CSINodes")
    if not limits_of(csi_nodes or (), needs):
        return replace(found, csi_nodes=csi_nodes)
    return replace(
        found,
        csi_nodes=csi_nodes,
        attachments=reader.allowed(f"{storage}/volumeattachments", VolumeAttachment, "VolumeAttachments"),
        all_claims=reader.allowed("/api/v1/persistentvolumeclaims", PersistentVolumeClaim, "persistent volume claims"),
    )


class _Reader(Struct):
    """Reads objects below the API path `path` of the namespace.

    `unseen` collects the kinds that the user may not read.
    """

    cluster: Cluster
    path: str
    namespace: str
    unseen: list[str] = field(default_factory=list)

    def listed(self, path: str, item: type[T], what: str) -> list[T] | None:
        return self._allowed(what, lambda: self.cluster.read_list(path, item, what))

    def allowed(self, path: str, item: type[T], what: str) -> list[T] | None:
        """Return the objects of a list.

        Return None if the user may not read the list, or the cluster is too old to serve it.

        If the result is None, the caller reports that these objects were not judged.
        """
        try:
            return self.cluster.read_list(path, item, what)
        except (ForbiddenError, NotFoundError):
            return None

    def named(self, needed: object, path: str, item: type[Named], what: str) -> dict[str, Named] | None:
        """Return the objects of a list by name; read the list only if it is `needed`."""
        return by_name(self.listed(path, item, what)) if needed else {}

    def namespaces(self, job: Job) -> list[kube.Named] | None:
        """Return the job's namespace, or all namespaces if an affinity term of the job selects namespaces by label."""
        if selects_namespaces(job):
            return self.listed("/api/v1/namespaces", kube.Named, "labels of namespaces")
        what = f"labels of namespace {self.namespace}"
        own = self._allowed(what, lambda: [self.cluster.read_optional(self.path, kube.Named, what)])
        return None if own is None else [each for each in own if each]

    def unserved(self, job: Job, kinds: Mapping[str, Callable[[], list[str]]]) -> Iterator[ApiKind]:
        """Yield those kinds of the job that the cluster does not serve.

        `kinds` returns the kinds of each API version.
        """
        for api_version, kind in served_by_operators(job):
            served = self._allowed(f"whether the cluster serves {kind} of {api_version}", kinds[api_version])
            if served is not None and kind not in served:
                yield api_version, kind

    def pods(self) -> list[kube.Pod] | None:
        """Return the namespace's pods."""
        return self._allowed(f"pods of namespace {self.namespace}", lambda: self.cluster.namespace_pods(self.namespace))

    def own(self, release: str | None) -> list[kube.Pod]:
        """Return the release's pods on all nodes, including nodes that have no room for pods of the job."""
        if release is None:
            return []
        return own_pods(self.cluster.chart_pods(self.namespace), self.namespace, release)

    def missing(self, job: Job) -> Iterator[ObjectName]:
        for kind, name in references(job):
            if self._is_there(kind, name) is False:
                yield kind, name

    def runtime_classes(self, job: Job) -> Iterator[tuple[str, RuntimeClass | None]]:
        """Yield each RuntimeClass of the job's pods that the user may read.

        The caller reports the RuntimeClasses that were not read.
        """
        for name in runtime_class.names(job):
            path = paths.of_kind("node.k8s.io/v1", "RuntimeClass", "", name)
            with suppress(ForbiddenError):
                yield name, self.cluster.read_optional(path, RuntimeClass, f"RuntimeClass {name}")

    def gang_schedulers(self, job: Job) -> Iterator[tuple[str, bool]]:
        """Yield the API group of each gang scheduler that the job needs, and whether the cluster serves its API."""
        for each in gang_schedulers.read(job):
            with suppress(ForbiddenError):
                yield each.group, each.is_among(self.cluster.served(each.group))

    def existing(self, objects: Iterable[CountedObject]) -> Iterator[CountedObject]:
        for each in objects:
            if self._is_there(each.resource.kind, each.resource.name, each.resource.api_version):
                yield each

    def _is_there(self, kind: str, name: str, api_version: str = "v1") -> bool | None:
        what = f"{kind} {name} of namespace {self.namespace}"
        path = paths.of_kind(api_version, kind, self.namespace, name)
        return self._allowed(what, lambda: self.cluster.has(path, what))

    def server_minor(self, labels: Iterable[Labels]) -> int | None:
        """Return the API server's minor version if one of the namespaces enforces Pod Security.

        Return None if no namespace enforces Pod Security, or if the version is unknown.
        """
        if all(enforced(each).level == "privileged" for each in labels):
            return None
        try:
            return minor_of(self.cluster.known_version())
        except UnreachableError:
            return None

    def _allowed(self, what: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except ForbiddenError:
            self.unseen.append(f"{what} (you may not read it)")
            return None
