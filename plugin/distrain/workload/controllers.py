"""Add to a job's pod templates the fields that controllers will set, if the scheduler or the API server reads them.

schemas/kinds.yaml lists what operators add. The fields that Kubernetes itself adds are listed in this module, and were
taken from the source of v1.34.4. Volumes are not added here: controllers add only volumes for ConfigMaps and Secrets
that they create themselves, and the scheduler ignores such volumes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.workload.kinds import VERSIONS, Port, Version

Spec = TypeVar("Spec", bound=kube.PodSpec)
# Two objects are the same if they have the same kind and name.
ObjectName = tuple[str, str]

JOB_ROLE = "training.kubeflow.org/job-role"
# Stands for the gang scheduler's name, which a flag of the operator sets. If the job has a schedulingPolicy, this
# scheduler places the pods that have no schedulerName.
GANG_SCHEDULER = "(the operator's gang scheduler)"


class Added(Struct, frozen=True):
    """What a controller adds to the pods of one role. `scheduler` applies only to pods that have no schedulerName.

    `labels` override the template's. `varying` are the keys of labels whose values differ between pods, or are unknown
    before the pods exist. `port` is a default port of the container named `container`, otherwise of the first
    container. With hostNetwork, it is also a host port. `creates` are the objects that the controller creates for the
    pods. If the controller creates another object that owns the pods, this object is included.
    """

    labels: dict[str, str] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()
    init_containers: tuple[kube.TemplateContainer, ...] = ()
    port: Port | None = None
    container: str = ""
    scheduler: str | None = None
    creates: frozenset[ObjectName] = frozenset()

    def to(self, spec: Spec) -> Spec:
        """Return the pod spec with what the controller adds."""
        containers = list(spec.containers or ())
        if self.port and containers:
            names = [container.name for container in containers]
            index = names.index(self.container) if self.container in names else 0
            containers[index] = _with_port(containers[index], self.port)
        init_containers = [*(spec.init_containers or ()), *self.init_containers]
        scheduler = spec.scheduler_name or self.scheduler
        return replace(spec, containers=containers, init_containers=init_containers, scheduler_name=scheduler)


def _with_port(container: kube.Container, port: Port) -> kube.Container:
    ports = container.ports or []
    if any(each.name == port.name for each in ports):
        return container
    return replace(container, ports=[*ports, kube.Port(name=port.name, container_port=port.number)])


class PodOwner(Struct, frozen=True):
    """A resource whose controller creates pods, and the names of its roles in lower case, such as launcher and worker.

    `in_gang` is true if a Kubeflow resource asks for gang scheduling.
    """

    api_version: str
    kind: str
    name: str
    roles: Collection[str] = ()
    in_gang: bool = False


def added(owner: PodOwner, role: str = "") -> Added:
    """Return what the owner's controller adds to the pods of `role`, which is a role of this owner."""
    version = VERSIONS.get((owner.api_version, owner.kind))
    made = _by_operator(version, owner, role) if version else _by_kubernetes(owner)
    return replace(made, scheduler=GANG_SCHEDULER) if owner.in_gang else made


def _by_operator(version: Version, owner: PodOwner, role: str) -> Added:
    names = {"kind": owner.kind.lower(), "job": owner.name, "role": role}
    labels, varying = {key: text.format(**names) for key, text in version.labels.items()}, set(version.varying)
    if role in version.masters:
        labels[JOB_ROLE] = "master"
    elif version.masters and role == "worker" and not {*version.masters} & {*owner.roles}:
        varying.add(JOB_ROLE)  # If the job has no master, worker 0 takes its place.
    made = Added(
        labels,
        frozenset(varying),
        init_containers=tuple(_init_containers(version, owner, role)),
        port=version.port,
        container=version.container,
        creates=frozenset((kind, name.format(**names)) for kind, name in version.creates.items()),
    )
    match version.makes.get(role):
        case "Job" as kind:
            return _through_job(_creating(made, kind, f"{owner.name}-{role}"), f"{owner.name}-{role}")
        case "StatefulSet" as kind:
            return _through_stateful_set(_creating(made, kind, f"{owner.name}-{role}"))
    return made


def _creating(made: Added, kind: str, name: str) -> Added:
    return replace(made, creates=made.creates | {(kind, name)})


def _init_containers(version: Version, owner: PodOwner, role: str) -> Iterator[kube.TemplateContainer]:
    added = version.init_container
    if added and role == added.role and (not added.beside or added.beside in owner.roles):
        yield kube.TemplateContainer(name=added.name, resources=kube.Resources(added.requests, limits=added.limits))


def _by_kubernetes(owner: PodOwner) -> Added:
    match owner.api_version, owner.kind:
        case "batch/v1", "Job":
            return _through_job(Added(), owner.name)
        case "apps/v1", "StatefulSet":
            return _through_stateful_set(Added())
    return Added()


def _through_job(made: Added, name: str) -> Added:
    # Kubernetes pkg/registry/batch/job/strategy.go: generateSelector; pkg/controller/job/job_controller.go: manageJob
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    varying = {"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-completion-index"}
    return replace(made, labels={**made.labels, **labels}, varying=made.varying | varying)


def _through_stateful_set(made: Added) -> Added:
    # Kubernetes pkg/controller/statefulset/stateful_set_utils.go: updateIdentity, setPodRevision
    varying = {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
    return replace(made, varying=made.varying | varying)


# An operator that was built with an older Kubernetes API drops these fields of a pod. Each key is the oldest Kubernetes
# version whose API has the fields. In each path, a dot leads into a map or into every item of a list. `overhead` is
# missing here, because the pod's RuntimeClass sets it again.
_TERMS = [
    f"affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution" for kind in ("podAffinity", "podAntiAffinity")
]
_CONTEXTS = ["securityContext", "containers.securityContext", "initContainers.securityContext"]
FIELDS_SINCE = {
    (1, 32): ["resources"],
    (1, 17): [
        *("resourceClaims", "schedulingGates", "initContainers.restartPolicy", "volumes.ephemeral"),
        *(f"{term}.{key}" for term in _TERMS for key in ("namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")),
        *(f"topologySpreadConstraints.{key}" for key in ("minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy")),
        "topologySpreadConstraints.matchLabelKeys",
        *(f"{context}.{key}" for context in _CONTEXTS for key in ("seccompProfile", "appArmorProfile")),
        *(f"{context}.windowsOptions.hostProcess" for context in _CONTEXTS),
        *("os", "hostUsers", "volumes.image", "securityContext.fsGroupChangePolicy"),
    ],
    (1, 16): ["topologySpreadConstraints", "containers.startupProbe", "initContainers.startupProbe"],
}


def understood(item: dict[str, Any]) -> dict[str, Any]:
    """Return a resource without the pod fields that its operator does not know, and therefore drops."""
    version = VERSIONS.get((str(item.get("apiVersion")), str(item.get("kind"))))
    for path in _dropped(version) if version else ():
        item = _without(item, ["spec", "*", "*", "template", "spec", *path.split(".")])
    return item


def _dropped(version: Version) -> list[str]:
    if not version.drops_fields_since:
        return []
    since = tuple(map(int, version.drops_fields_since.split(".")))
    return [path for release, paths in FIELDS_SINCE.items() if release >= since for path in paths]


def _without(tree: Any, path: Sequence[str]) -> Any:
    if isinstance(tree, list):
        return [_without(item, path) for item in tree]
    if not isinstance(tree, dict):
        return tree
    first, *rest = path
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    return {key: _without(value, rest) if first in ("*", key) else value for key, value in tree.items()}
