"""Read what decides over a job's pods beside nodes and other pods, as far as the caller may read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field

from distrain import kube
from distrain.api.answers import NotFoundError
from distrain.api.cluster import Cluster
from distrain.check.labels import Labels, is_empty
from distrain.check.volumes import claims_of
from distrain.controllers import ObjectName
from distrain.errors import ForbiddenError
from distrain.job import Job
from distrain.kube.policy import LimitRange, PersistentVolume, PersistentVolumeClaim, PriorityClass, ResourceQuota

# Kubernetes brings these itself.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# What a namespace's account and Kubernetes put into each namespace.
GIVEN = frozenset({("ConfigMap", "kube-root-ca.crt")})

T = TypeVar("T")


class Surroundings(Struct, frozen=True):
    """What stands around a job in its namespace; None is what was not read, and `unseen` says what that is.

    `missing` are the Secrets and ConfigMaps among those that the job's pods need which are not there.
    """

    namespaces: Mapping[str, Labels] | None = None
    quotas: Sequence[ResourceQuota] | None = None
    limit_ranges: Sequence[LimitRange] | None = None
    priority_classes: Mapping[str, PriorityClass] | None = None
    claims: Mapping[str, PersistentVolumeClaim] | None = None
    volumes: Mapping[str, PersistentVolume] | None = None
    storage_classes: Mapping[str, kube.StorageClass] | None = None
    missing: frozenset[ObjectName] = frozenset()
    unseen: Sequence[str] = field(default_factory=list)


def read(cluster: Cluster, job: Job, namespace: str) -> Surroundings:
    """Ask only for what the job's pods depend on; what is forbidden is named, and the rest judged without it."""
    reader = _Reader(cluster, f"/api/v1/namespaces/{namespace}", namespace)
    claims = reader.claims(job)
    return Surroundings(
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


def foreign_claims(job: Job) -> list[str]:
    """Name the claims that the job's pods use and that it does not bring itself."""
    names = {name for role in job.roles for name in claims_of(role.spec.volumes)}
    return sorted(name for name in names if ("PersistentVolumeClaim", name) not in job.creates)


def references(job: Job) -> list[ObjectName]:
    """Name the Secrets and ConfigMaps without which a pod of the job does not start, and that it does not bring."""
    found = {name for role in job.roles for name in _references(role.spec)}
    return sorted(found - job.creates - GIVEN)


def priority_classes_of(job: Job) -> list[str]:
    names = {role.spec.priority_class_name for role in job.roles if role.spec.priority_class_name}
    return sorted(names - set(SYSTEM_PRIORITIES))


class _Reader(Struct):
    """Reads parts of a namespace, at `path`, and keeps in mind what it may not read."""

    cluster: Cluster
    path: str
    namespace: str
    unseen: list[str] = field(default_factory=list)

    def listed(self, path: str, item: type[T], what: str) -> list[T] | None:
        return self._allowed(what, lambda: self.cluster.read_list(path, item, what))

    def namespaces(self, job: Job) -> dict[str, Labels] | None:
        """Return the labels of all namespaces where the job's rules select among them, else of its own alone."""
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
        return _by_name(self.listed(path, PriorityClass, "PriorityClasses"))

    def claims(self, job: Job) -> dict[str, PersistentVolumeClaim] | None:
        if not foreign_claims(job):
            return {}
        what = f"persistent volume claims of namespace {self.namespace}"
        return _by_name(self.listed(f"{self.path}/persistentvolumeclaims", PersistentVolumeClaim, what))

    def volumes(self, claims: Mapping[str, PersistentVolumeClaim]) -> dict[str, PersistentVolume] | None:
        if not claims:
            return {}
        return _by_name(self.listed("/api/v1/persistentvolumes", PersistentVolume, "persistent volumes"))

    def storage_classes(
        self, job: Job, claims: Mapping[str, PersistentVolumeClaim]
    ) -> dict[str, kube.StorageClass] | None:
        volumes = (volume for role in job.roles for volume in role.spec.volumes or ())
        if not claims and not any(volume.ephemeral for volume in volumes):
            return {}
        path = "/apis/storage.k8s.io/v1/storageclasses"
        return _by_name(self.listed(path, kube.StorageClass, "storage classes"))

    def missing(self, job: Job) -> Iterator[ObjectName]:
        for kind, name in references(job):
            if self._is_there(kind, name) is False:
                yield kind, name

    def _is_there(self, kind: str, name: str) -> bool | None:
        """Tell whether an object is there, by its metadata: no key of a Secret is read."""
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


Kept = TypeVar("Kept", PersistentVolume, PersistentVolumeClaim, PriorityClass, kube.StorageClass)


def _by_name(items: Sequence[Kept] | None) -> dict[str, Kept] | None:
    return None if items is None else {item.metadata.name: item for item in items}


def _selects_namespaces(job: Job) -> bool:
    for role in job.roles:
        affinity = role.spec.affinity or kube.Affinity()
        for rules in (affinity.pod_affinity, affinity.pod_anti_affinity):
            selectors = [term.namespace_selector for term in (rules and rules.required) or ()]
            if any(selector is not None and not is_empty(selector) for selector in selectors):
                return True
    return False


def _references(spec: kube.TemplateSpec) -> Iterator[ObjectName]:
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        # Containers that an operator adds have none.
        if isinstance(container, kube.TemplateContainer):
            yield from _of_container(container)
    for volume in spec.volumes or ():
        if isinstance(volume, kube.TemplateVolume):
            yield from _of_volume(volume)


def _of_container(container: kube.TemplateContainer) -> Iterator[ObjectName]:
    for variable in container.env or ():
        if variable.value_from:
            yield from _needed("Secret", variable.value_from.secret_key_ref)
            yield from _needed("ConfigMap", variable.value_from.config_map_key_ref)
    for variables in container.env_from or ():
        yield from _needed("Secret", variables.secret_ref)
        yield from _needed("ConfigMap", variables.config_map_ref)


def _of_volume(volume: kube.TemplateVolume) -> Iterator[ObjectName]:
    if volume.secret and not volume.secret.optional:
        yield "Secret", volume.secret.secret_name
    yield from _needed("ConfigMap", volume.config_map)
    for source in (volume.projected and volume.projected.sources) or ():
        yield from _needed("Secret", source.secret)
        yield from _needed("ConfigMap", source.config_map)


def _needed(kind: str, reference: kube.Reference | None) -> Iterable[ObjectName]:
    return [(kind, reference.name)] if reference and reference.name and not reference.optional else []
