"""Find the objects that a job's pods depend on, besides nodes and other pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field

from distrain import kube
from distrain.kube.pod_spec import Reference
from distrain.kube.policy import LimitRange, PriorityClass, ResourceQuota
from distrain.kube.selectors import Labels, is_empty
from distrain.kube.storage import PersistentVolume, PersistentVolumeClaim
from distrain.scheduler.affinity_terms import stated_terms
from distrain.scheduler.node_usage import ENDED
from distrain.scheduler.volume_restrictions import claims_of
from distrain.workload.controllers import ObjectName
from distrain.workload.manifest import ROLE_LABEL, Job, is_of_release

# The role of the hook with which the chart runs the check in the cluster. The hook's pod ends before the job starts.
PREFLIGHT = "preflight"
# The controller manager creates these in each namespace.
GIVEN = frozenset({("ConfigMap", "kube-root-ca.crt")})


Named = TypeVar("Named", PersistentVolume, PersistentVolumeClaim, PriorityClass, kube.StorageClass)


class Dependencies(Struct, frozen=True):
    """The objects of the namespace and the cluster that affect a job's pods.

    A field is None if its kind was not read; `unseen` then names the kind. `missing` are Secrets and ConfigMaps that
    the job's pods need and that do not exist. `own` are the pods of the same release, which end before the job starts
    or belong to the job already.
    """

    namespaces: Mapping[str, Labels] | None = None
    quotas: Sequence[ResourceQuota] | None = None
    limit_ranges: Sequence[LimitRange] | None = None
    priority_classes: Mapping[str, PriorityClass] | None = None
    claims: Mapping[str, PersistentVolumeClaim] | None = None
    volumes: Mapping[str, PersistentVolume] | None = None
    storage_classes: Mapping[str, kube.StorageClass] | None = None
    missing: frozenset[ObjectName] = frozenset()
    own: Sequence[kube.Pod] = ()
    unseen: Sequence[str] = field(default_factory=list)


def by_name(items: Sequence[Named] | None) -> dict[str, Named] | None:
    return None if items is None else {item.metadata.name: item for item in items}


def namespace_of(job: Job, namespace: str) -> str:
    """Return the namespace in the job's manifest, otherwise the given one."""
    return job.main.namespace or namespace


def own_pods(pods: Iterable[kube.Pod], namespace: str, release: str | None) -> list[kube.Pod]:
    """Return the release's pods; a pod that is being deleted is none of them, since it still uses its node."""
    found = (pod for pod in pods if release and pod.metadata.namespace == namespace)
    return [
        pod
        for pod in found
        if is_of_release(pod.metadata.labels or {}, release or "") and not pod.metadata.deletion_timestamp
    ]


def on_nodes(own: Iterable[kube.Pod]) -> int:
    """Count the release's pods that use a node, without the pod that runs the check."""
    others = (pod for pod in own if (pod.metadata.labels or {}).get(ROLE_LABEL) != PREFLIGHT)
    running = (pod for pod in others if pod.status.phase not in ENDED)
    return sum(bool(pod.spec.node_name or pod.status.nominated_node_name) for pod in running)


def foreign_claims(job: Job) -> list[str]:
    """Name the claims that the job's pods use and that its manifest does not create."""
    names = {name for role in job.roles for name in claims_of(role.spec.volumes)}
    return sorted(name for name in names if ("PersistentVolumeClaim", name) not in job.creates)


def references(job: Job) -> list[ObjectName]:
    """Name the Secrets and ConfigMaps that the job's pods need to start and that its manifest does not create."""
    found = {name for role in job.roles for name in _references(role.spec)}
    return sorted(found - job.creates - GIVEN)


def selects_namespaces(job: Job) -> bool:
    """Tell whether an affinity term of the job selects namespaces by their labels."""
    selectors = [term.namespace_selector for role in job.roles for term in stated_terms(role.spec)]
    return any(selector is not None and not is_empty(selector) for selector in selectors)


def _references(spec: kube.TemplateSpec) -> Iterator[ObjectName]:
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
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


def _needed(kind: str, reference: Reference | None) -> Iterable[ObjectName]:
    return [(kind, reference.name)] if reference and reference.name and not reference.optional else []
