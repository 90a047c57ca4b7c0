"""Read the data for a check from a live cluster, as far as the user may read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.admission.priority import priority_classes_of
from distrain.apiserver.cluster import Cluster
from distrain.check.candidate_nodes import candidate_nodes, unread
from distrain.check.cluster_state import ClusterState, take
from distrain.check.dependencies import Dependencies, by_name, foreign_claims, namespace_of, references
from distrain.check.gpus import gpus_of
from distrain.check.refusals import PreparedJob, prepare
from distrain.check.report import Report, report
from distrain.errors import ForbiddenError, NotFoundError
from distrain.kube.policy import LimitRange, PriorityClass, ResourceQuota
from distrain.kube.selectors import Labels, is_empty
from distrain.kube.storage import PersistentVolume, PersistentVolumeClaim
from distrain.workload.controllers import ObjectName
from distrain.workload.manifest import Job

T = TypeVar("T")


def check(
    cluster: Cluster, job: Job, namespace: str, gpu_resource: str | None = None, release: str | None = None
) -> Report:
    """Read the cluster and judge the job; errors are those of `examined`.

    Without `gpu_resource`, the GPU resource's name is guessed from the pods' requests.
    """
    prepared, state = examined(cluster, job, namespace, gpu_resource, release)
    return report(prepared, state, gpu_resource or gpus_of(job))


def examined(
    cluster: Cluster,
    job: Job,
    namespace: str,
    gpu_resource: str | None = None,
    release: str | None = None,
    more: Sequence[kube.Node] = (),
) -> tuple[PreparedJob, ClusterState]:
    """Read the job's dependencies and the state of the cluster.

    Pods of `release` count as free, and the nodes in `more` as part of the cluster. Raises UnreachableError if nodes or
    pods cannot be read.
    """
    namespace = namespace_of(job, namespace)
    prepared = prepare(job, namespace, _dependencies(cluster, job, namespace), gpu_resource or gpus_of(job))
    nodes = [*cluster.nodes(), *more]
    chosen = candidate_nodes(prepared.job, nodes)
    state = take(nodes, lambda use: cluster.over_pods(use, chosen), prepared.constraints, release)
    elsewhere = [] if chosen is None else [unread(len(nodes) - len(chosen))]
    return replace(prepared, unseen=(*prepared.unseen, *elsewhere)), state


def _dependencies(cluster: Cluster, job: Job, namespace: str) -> Dependencies:
    """Read only the kinds that the job's pods depend on; `unseen` names what the user may not read."""
    reader = _Reader(cluster, f"/api/v1/namespaces/{namespace}", namespace)
    claims = reader.claims(job)
    return Dependencies(
        namespaces=reader.namespaces(job),
        quotas=reader.listed(
            f"{reader.path}/resourcequotas", ResourceQuota, f"ResourceQuotas of namespace {namespace}"
        ),
        limit_ranges=reader.listed(f"{reader.path}/limitranges", LimitRange, f"LimitRanges of namespace {namespace}"),
        priority_classes=reader.priority_classes(job),
        claims=claims,
        volumes=reader.volumes(claims or {}),
        storage_classes=reader.storage_classes(job, claims or {}),
        missing=frozenset(reader.missing(job)),
        unseen=reader.unseen,
    )


class _Reader(Struct):
    """Read objects of a namespace, whose API path is `path`, and collect in `unseen` what the user may not read."""

    cluster: Cluster
    path: str
    namespace: str
    unseen: list[str] = field(default_factory=list)

    def listed(self, path: str, item: type[T], what: str) -> list[T] | None:
        return self._allowed(what, lambda: self.cluster.read_list(path, item, what))

    def namespaces(self, job: Job) -> dict[str, Labels] | None:
        """Return the labels of all namespaces if a term of the job selects namespaces, else of the job's namespace."""
        if _selects_namespaces(job):
            items = self.listed("/api/v1/namespaces", kube.Named, "labels of namespaces")
            return None if items is None else {item.metadata.name: item.metadata.labels or {} for item in items}
        what = f"labels of namespace {self.namespace}"
        own = self._allowed(what, lambda: _or_none(lambda: self.cluster.read_one(self.path, kube.Named, what)))
        return {self.namespace: own.metadata.labels or {}} if own else None

    def priority_classes(self, job: Job) -> dict[str, PriorityClass] | None:
        if not priority_classes_of(job):
            return {}
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        return by_name(self.listed(path, PriorityClass, "PriorityClasses"))

    def claims(self, job: Job) -> dict[str, PersistentVolumeClaim] | None:
        if not foreign_claims(job):
            return {}
        what = f"persistent volume claims of namespace {self.namespace}"
        return by_name(self.listed(f"{self.path}/persistentvolumeclaims", PersistentVolumeClaim, what))

    def volumes(self, claims: Mapping[str, PersistentVolumeClaim]) -> dict[str, PersistentVolume] | None:
        if not claims:
            return {}
        return by_name(self.listed("/api/v1/persistentvolumes", PersistentVolume, "persistent volumes"))

    def storage_classes(
        self, job: Job, claims: Mapping[str, PersistentVolumeClaim]
    ) -> dict[str, kube.StorageClass] | None:
        volumes = (volume for role in job.roles for volume in role.spec.volumes or ())
        if not claims and not any(volume.ephemeral for volume in volumes):
            return {}
        path = "/apis/storage.k8s.io/v1/storageclasses"
        return by_name(self.listed(path, kube.StorageClass, "storage classes"))

    def missing(self, job: Job) -> Iterator[ObjectName]:
        for kind, name in references(job):
            if self._is_there(kind, name) is False:
                yield kind, name

    def _is_there(self, kind: str, name: str) -> bool | None:
        """Tell whether the object exists. Only its metadata is read, no key of a Secret."""
        what = f"{kind} {name} of namespace {self.namespace}"
        path = f"{self.path}/{kind.lower()}s/{name}"
        return self._allowed(what, lambda: _or_none(lambda: self.cluster.read_metadata(path, what)) is not None)

    def _allowed(self, what: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except ForbiddenError:
            self.unseen.append(f"{what} (you may not read it)")
            return None


def _or_none(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except NotFoundError:
        return None


def _selects_namespaces(job: Job) -> bool:
    for role in job.roles:
        affinity = role.spec.affinity or kube.Affinity()
        for rules in (affinity.pod_affinity, affinity.pod_anti_affinity):
            selectors = [term.namespace_selector for term in (rules and rules.required) or ()]
            if any(selector is not None and not is_empty(selector) for selector in selectors):
                return True
    return False
