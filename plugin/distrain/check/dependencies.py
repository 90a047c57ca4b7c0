"""Find the objects that a job's pods depend on, besides nodes and other pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.admission import new_quotas, resource_quota
from distrain.kube.pod_spec import Reference
from distrain.kube.pod_status import ENDED
from distrain.kube.policy import LimitRange, PriorityClass, ResourceQuota, RuntimeClass
from distrain.kube.selectors import Labels, is_empty
from distrain.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from distrain.scheduler.affinity_terms import NAMESPACE_LABEL, stated_terms
from distrain.scheduler.volume_restrictions import claims_of
from distrain.workload.chart_objects import instance_of
from distrain.workload.controllers import ObjectName
from distrain.workload.counted_objects import CountedObject
from distrain.workload.kinds import KUBEFLOW
from distrain.workload.manifest import ROLE_LABEL, Job, PodRole
from distrain.workload.policies import Policies

# A hook of the chart runs the check in the cluster. The hook's pod has this name as its role, and ends before the job
# starts.
PREFLIGHT = "preflight"
# The controller manager creates these objects in each namespace.
GIVEN = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})

# An API version and a kind.
ApiKind = tuple[str, str]

Policy = TypeVar("Policy", bound=ResourceQuota | LimitRange)
Named = TypeVar("Named", PersistentVolume, PersistentVolumeClaim, PriorityClass, kube.StorageClass, CSIDriver)


class Dependencies(Struct, frozen=True):
    """The objects of the namespace and of the cluster that affect a job's pods.

    A field is None if objects of its kind were not read; `unseen` then names the kind. `missing` are the Secrets,
    ConfigMaps and ServiceAccounts that the job's pods need but that do not exist. `unserved` are the kinds in the job's
    manifest that the cluster does not serve. `has_namespace` tells whether the job's namespace exists, if this is
    known. `ending_namespaces` are being deleted. `all_claims` are the claims of all namespaces. `own` are the pods of
    the release with the job's name: pods of an earlier job, which end before the job starts, or pods of this job.
    `pods` are all pods of the namespace; they are read only if the manifest contains a quota for this namespace.
    `existing` are the objects of the manifest that exist already; quotas have counted them already. `former_classes`
    are the cluster's PriorityClasses before the manifest is applied. `runtime_classes` maps the name of each
    RuntimeClass of the job's pods to the class, or to None if the cluster has no such class; a class that was not read
    has no entry. `server_minor` is the minor version of the API server, for example 34 for Kubernetes 1.34; it is None
    if it is unknown or has no influence on the job. The keys of `gang_schedulers` are the API groups of the gang
    schedulers that the job needs. A value is true if the cluster serves the group. If the plugin could not find out
    whether the cluster serves a group, the group has no entry. The flags in `kubectl_flags` make kubectl use this
    cluster and namespace.
    """

    namespaces: Mapping[str, Labels] | None = None
    quotas: Sequence[ResourceQuota] | None = None
    limit_ranges: Sequence[LimitRange] | None = None
    priority_classes: Mapping[str, PriorityClass] | None = None
    former_classes: Mapping[str, PriorityClass] | None = None
    runtime_classes: Mapping[str, RuntimeClass | None] = field(default_factory=dict)
    claims: Mapping[str, PersistentVolumeClaim] | None = None
    volumes: Mapping[str, PersistentVolume] | None = None
    storage_classes: Mapping[str, kube.StorageClass] | None = None
    csi_nodes: Sequence[CSINode] | None = None
    csi_drivers: Mapping[str, CSIDriver] | None = None
    capacities: Sequence[CSIStorageCapacity] | None = None
    attachments: Sequence[VolumeAttachment] | None = None
    all_claims: Sequence[PersistentVolumeClaim] | None = None
    missing: frozenset[ObjectName] = frozenset()
    own: Sequence[kube.Pod] = ()
    unserved: frozenset[ApiKind] = frozenset()
    has_namespace: bool = True
    ending_namespaces: frozenset[str] = frozenset()
    pods: Sequence[kube.Pod] | None = None
    existing: frozenset[CountedObject] = frozenset()
    server_minor: int | None = None
    gang_schedulers: Mapping[str, bool] = field(default_factory=dict)
    unseen: Sequence[str] = field(default_factory=list)
    kubectl_flags: str = ""


def by_name(items: Sequence[Named] | None) -> dict[str, Named] | None:
    return None if items is None else {item.metadata.name: item for item in items}


def labels_of(items: Sequence[kube.Named] | None) -> dict[str, Labels] | None:
    """Map the name of each object to the object's labels. Return None if the objects were not read."""
    return None if items is None else {item.metadata.name: item.metadata.labels or {} for item in items}


def ending(items: Sequence[kube.Named] | None) -> frozenset[str]:
    """Name the objects that are being deleted."""
    return frozenset(item.metadata.name for item in items or () if item.metadata.deletion_timestamp)


def namespace_of(job: Job, namespace: str) -> str:
    """Return the namespace that the job's manifest names, otherwise the given namespace."""
    return job.main.namespace or namespace


def own_pods(pods: Iterable[kube.Pod], namespace: str, release: str | None) -> list[kube.Pod]:
    """Return the release's pods, except pods that are being deleted.

    The caller counts the resources of the returned pods as free. A pod that is being deleted uses its resources until
    it is gone, so they do not count as free.
    """
    found = (pod for pod in pods if release and pod.metadata.namespace == namespace)
    own = (pod for pod in found if instance_of(pod.metadata.labels) == release)
    return [pod for pod in own if not pod.metadata.deletion_timestamp]


def on_nodes(own: Iterable[kube.Pod]) -> int:
    """Count the release's pods that use a node. The pod that runs the check itself is not counted."""
    others = (pod for pod in own if (pod.metadata.labels or {}).get(ROLE_LABEL) != PREFLIGHT)
    running = (pod for pod in others if pod.status.phase not in ENDED)
    return sum(bool(pod.spec.node_name or pod.status.nominated_node_name) for pod in running)


def uses_claims(job: Job) -> bool:
    """Tell whether the job's pods use claims that may exist already, or its manifest creates such claims."""
    used = any(claims_of(role.spec.volumes) or role.claim_templates for role in job.roles)
    return used or bool(job.created.claim_namespaces)


def has_own_claims(job: Job) -> bool:
    """Tell whether controllers create persistent volume claims for each of the job's pods."""
    volumes = (volume for role in job.roles for volume in role.spec.volumes or ())
    return any(role.claim_templates for role in job.roles) or any(volume.ephemeral for volume in volumes)


def counts_pods(job: Job, namespaces: Mapping[str, Labels] | None, namespace: str) -> bool:
    """Tell whether the manifest contains a quota for a namespace that may already contain pods."""
    return bool(job.policies.quotas_of(namespace)) and not _is_new(namespaces, namespace)


def may_exist(job: Job, quotas: Sequence[ResourceQuota] | None, namespace: str) -> list[CountedObject]:
    """Return the job's objects that quotas count and that may exist already.

    The objects that the operator creates are left out, because they are counted with the release's pods.
    """
    every = [*(quotas or ()), *job.policies.quotas_of(namespace)]
    return [each for each in job.objects if not each.is_of_operator and resource_quota.counts(every, each)]


def with_policies(found: Dependencies, policies: Policies, namespace: str) -> Dependencies:
    """Return the dependencies as they will be when the manifest's policies have been created.

    A policy of the manifest replaces the cluster's policy of the same name. The labels that the manifest sets on a
    namespace are added to the labels that the namespace has already.
    """
    quotas, classes, added = policies.quotas_of(namespace), found.priority_classes, policies.priority_classes
    before = {each.metadata.name: each for each in found.quotas or ()}
    is_new = _is_new(found.namespaces, namespace)
    pods = () if is_new else found.pods
    new = [new_quotas.with_usage(each, before.get(each.metadata.name), pods) for each in quotas]
    unknown = (new_quotas.not_counted(each, before.get(each.metadata.name), pods) for each in quotas if not is_new)
    return replace(
        found,
        namespaces=_with_labels(found.namespaces, policies),
        quotas=_replaced(found.quotas, new),
        limit_ranges=_replaced(found.limit_ranges, policies.limit_ranges_of(namespace)),
        priority_classes=None if classes is None else {**classes, **{each.metadata.name: each for each in added}},
        former_classes=classes,
        unseen=[*found.unseen, *(words for each in unknown for words in each)],
    )


def _is_new(namespaces: Mapping[str, Labels] | None, namespace: str) -> bool:
    """Tell whether the plugin knows that the namespace does not exist in the cluster."""
    return namespaces is not None and namespace not in namespaces


def _with_labels(namespaces: Mapping[str, Labels] | None, policies: Policies) -> Mapping[str, Labels] | None:
    if namespaces is None:
        return None
    added = {
        name: {**namespaces.get(name, {}), **labels, NAMESPACE_LABEL: name} for name, labels in policies.labels.items()
    }
    return {**namespaces, **added}


def _replaced(found: Sequence[Policy] | None, new: Sequence[Policy]) -> Sequence[Policy] | None:
    """Return the existing objects together with the new objects. A new object replaces an object of the same name."""
    if not new:
        return found
    names = {each.metadata.name for each in new}
    return [*(each for each in found or () if each.metadata.name not in names), *new]


def with_storage(found: Dependencies, job: Job) -> Dependencies:
    """Add the volumes and storage classes that the job's manifest creates.

    New objects do not replace existing objects of the same name.
    """
    volumes, classes = job.created.by_name(PersistentVolume), job.created.by_name(kube.StorageClass)
    return replace(
        found,
        volumes=None if found.volumes is None else {**volumes, **found.volumes},
        storage_classes=None if found.storage_classes is None else {**classes, **found.storage_classes},
    )


def with_namespace(found: Dependencies, namespace: str) -> Dependencies:
    """Return the dependencies. If the namespace does not exist, treat it as empty and add a note that says so."""
    if found.namespaces is None or namespace in found.namespaces:
        return found
    namespaces = {**found.namespaces, namespace: {NAMESPACE_LABEL: namespace}}
    words = f"namespace {namespace}, which is not there: an empty one is judged"
    return replace(found, namespaces=namespaces, has_namespace=False, unseen=[*found.unseen, words])


def served_by_operators(job: Job) -> list[ApiKind]:
    """Return the kinds of the job's objects that a cluster serves only if the kind's operator is installed.

    Leave out kinds whose CustomResourceDefinition is in the manifest.
    """
    kinds = {(each.api_version, each.kind) for each in job.resources if each.kind in KUBEFLOW}
    return sorted(kind for kind in kinds if _definition(*kind) not in job.creates)


def _definition(api_version: str, kind: str) -> ObjectName:
    return "CustomResourceDefinition", f"{KUBEFLOW[kind].resource}.{api_version.partition('/')[0]}"


def references(job: Job) -> dict[ObjectName, list[PodRole]]:
    """Return the names of Secrets, ConfigMaps and ServiceAccounts that the job names but its manifest does not create.

    Map each of these objects to the roles whose pods name it.
    """
    found: dict[ObjectName, list[PodRole]] = {}
    for role in (role for role in job.roles if role.replicas):
        for name in dict.fromkeys((*needs(role.spec), *_of_pull(role.spec))):
            found.setdefault(name, []).append(role)
    return {name: found[name] for name in sorted(found.keys() - job.creates - GIVEN)}


def selects_namespaces(job: Job) -> bool:
    """Tell whether an affinity term of the job selects namespaces by their labels."""
    selectors = [term.namespace_selector for role in job.roles for term in stated_terms(role.spec)]
    return any(selector is not None and not is_empty(selector) for selector in selectors)


def _of_pull(spec: kube.TemplateSpec) -> Iterator[ObjectName]:
    """Yield the Secrets of imagePullSecrets. Without them, kubelet pulls the image without a login."""
    return (("Secret", each.name) for each in spec.image_pull_secrets or () if each.name)


def needs(spec: kube.TemplateSpec) -> Iterator[ObjectName]:
    """Yield the Secrets, ConfigMaps and ServiceAccounts without which the pods do not start."""
    if account := spec.service_account_name or spec.service_account:
        yield "ServiceAccount", account
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        yield from needs_of_container(container)
    for volume in spec.volumes or ():
        yield from needs_of_volume(volume)


def needs_of_container(container: kube.TemplateContainer) -> Iterator[ObjectName]:
    """Yield the Secrets and ConfigMaps without which the container does not start."""
    for variable in container.env or ():
        if variable.value_from:
            yield from _needed("Secret", variable.value_from.secret_key_ref)
            yield from _needed("ConfigMap", variable.value_from.config_map_key_ref)
    for variables in container.env_from or ():
        yield from _needed("Secret", variables.secret_ref)
        yield from _needed("ConfigMap", variables.config_map_ref)


def needs_of_volume(volume: kube.Volume) -> Iterator[ObjectName]:
    """Yield the Secrets and ConfigMaps without which the volume is not mounted."""
    if not isinstance(volume, kube.TemplateVolume):
        return
    if volume.secret and not volume.secret.optional:
        yield "Secret", volume.secret.secret_name
    yield from _needed("ConfigMap", volume.config_map)
    for source in (volume.projected and volume.projected.sources) or ():
        yield from _needed("Secret", source.secret)
        yield from _needed("ConfigMap", source.config_map)


def _needed(kind: str, reference: Reference | None) -> Iterable[ObjectName]:
    return [(kind, reference.name)] if reference and reference.name and not reference.optional else []
