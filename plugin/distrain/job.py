"""The job that a rendered manifest describes: the resources that hold its pods, and the pods by role.

What the operators put into the pods they make counts as if the manifest said it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace as with_fields

from distrain import kube
from distrain.amounts import Units, pod_request
from distrain.errors import ValuesError

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
ROLE_LABEL = "app.kubernetes.io/component"
CHART = "distrain"
HOOK = "helm.sh/hook"

KEYGEN, MASTER, WORKER = "keygen", "master", "worker"
# Kubeflow's own names in lower case, in the order in which a report lists them: who does the work comes last.
ROLES = (KEYGEN, "launcher", "chief", "scheduler", "server", "ps", "evaluator", MASTER, WORKER)
REPLICAS = {
    "MPIJob": "mpi_replicas",
    "PyTorchJob": "pytorch_replicas",
    "MXJob": "mx_replicas",
    "TFJob": "tf_replicas",
}
OTHERS = {("batch/v1", "Job"), ("apps/v1", "StatefulSet"), ("v1", "Pod")}
KINDS = "MPIJob, PyTorchJob, MXJob, TFJob, Job, StatefulSet or Pod"

# What an operator adds to each launcher of an MPIJob that reaches its workers through kubectl exec ...
KUBECTL_VERSIONS = ("kubeflow.org/v1", "kubeflow.org/v1alpha2")
KUBECTL_DELIVERY = kube.Container(
    name="kubectl-delivery",
    resources=kube.Resources(requests={"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}),
)
# ... and training-operator to each Worker that has to wait for a Master.
INIT_PYTORCH = kube.Container(name="init-pytorch", resources=kube.Resources(requests={"cpu": "50m", "memory": "10Mi"}))


@dataclass(frozen=True, slots=True)
class Resource:
    """An object of the cluster that holds pods of the job."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class PodRole:
    """Pods of the job that are alike. `component` is their label app.kubernetes.io/component."""

    name: str
    replicas: int
    spec: kube.PodSpec
    request: Units
    component: str = ""

    def pods(self, number: int) -> str:
        """Say so many pods of this role: "1 launcher", "3 workers", "3 ps", "2 pods of web"."""
        if self.name not in ROLES:
            return f"{number} pod{'s' if number != 1 else ''} of {self.name}"
        return f"{number} {self.name}{'s' if number != 1 and self.name != 'ps' else ''}"


@dataclass(frozen=True, slots=True)
class Job:
    """A job. `from_chart`: its pods are distrain's, so that its figures are found among the chart's values.

    The first resource is the one whose end is the job's end.
    """

    resources: tuple[Resource, ...]
    roles: tuple[PodRole, ...]
    from_chart: bool = False

    @property
    def main(self) -> PodRole:
        """Return the role of which there are many: the workers, else whatever has the most pods."""
        workers = [role for role in self.roles if role.name == WORKER]
        return workers[0] if workers else max(reversed(self.roles), key=lambda role: role.replicas)

    @property
    def others(self) -> tuple[PodRole, ...]:
        return tuple(role for role in self.roles if role is not self.main)

    @property
    def ranks_beside(self) -> int:
        """Return how many pods train beside the main role's: a PyTorchJob's Master is one of workers.replicas."""
        return sum(role.replicas for role in self.others if role.name == MASTER and self.main.name == WORKER)


def from_manifest(manifest: str, origin: str) -> Job:
    """Find the job's pods among rendered resources; `origin` is the flag that a message names.

    Helm's hooks are left out: they run before or after the job. Raises ValuesError when there is no job, or when
    Kubernetes would refuse it.
    """
    found = [_parsed(item, origin) for item in _items(manifest, origin) if _holds_pods(item)]
    if not found:
        raise ValuesError(f"{origin}: there is no job, that is no {KINDS}; so there is nothing to check")
    roles = [(resource, role) for resource, workload in found for role in _roles(resource, workload)]
    resources = sorted((resource for resource, _ in found), key=_follows)
    return Job(tuple(resources), tuple(sorted(_distinct(roles), key=_place)), all(map(_is_ours, found)))


def _items(manifest: str, origin: str) -> Iterator[dict[str, Any]]:
    try:
        documents = list(yaml.safe_load_all(manifest))
    except yaml.YAMLError as error:
        raise ValuesError(f"{origin}: it is no YAML: {' '.join(str(error).split())}") from error
    for document in documents:
        if isinstance(document, dict):
            yield from (document.get("items") or ()) if document.get("kind") == "List" else [document]


def _holds_pods(item: dict[str, Any]) -> bool:
    version, kind = str(item.get("apiVersion")), str(item.get("kind"))
    if HOOK in ((item.get("metadata") or {}).get("annotations") or {}):
        return False
    return (version, kind) in OTHERS or (version.startswith("kubeflow.org/") and kind in REPLICAS)


def _parsed(item: dict[str, Any], origin: str) -> tuple[Resource, kube.Workload]:
    metadata = item.get("metadata") or {}
    resource = Resource(item["apiVersion"], item["kind"], str(metadata.get("name") or "without a name"))
    try:
        if resource.kind != "Pod":
            return resource, msgspec.convert(item, kube.Workload)
        pod = msgspec.convert(item, kube.Pod)
    except msgspec.ValidationError as error:
        words = f"{origin}: {resource.kind} {resource.name} is not of Kubernetes' form: {error}"
        raise ValuesError(words) from error
    template = kube.PodTemplate(pod.metadata, pod.spec)
    return resource, kube.Workload(pod.metadata, kube.WorkloadSpec(template=template))


def _roles(resource: Resource, workload: kube.Workload) -> Iterator[PodRole]:
    spec = workload.spec
    if resource.kind not in REPLICAS:
        name = _labels(spec.template).get(ROLE_LABEL, resource.name)
        yield _role(name, _number(spec), spec.template)
        return
    replicas: dict[str, kube.ReplicaSpec] = getattr(spec, REPLICAS[resource.kind]) or {}
    for key, replica in replicas.items():
        number = 1 if replica.replicas is None else replica.replicas
        yield _role(key.lower(), number, replica.template, _added(resource, key, replicas))


def _role(name: str, replicas: int, template: kube.PodTemplate | None, added: Sequence[kube.Container] = ()) -> PodRole:
    spec = (template and template.spec) or kube.PodSpec()
    spec = with_fields(spec, init_containers=[*(spec.init_containers or ()), *added])
    try:
        request = pod_request(kube.Pod(spec=spec))
    except ValueError as error:
        raise ValuesError(f"{name}: resources: {error}; write amounts such as 2, 500m or 4Gi") from error
    return PodRole(name, replicas, spec, request, _labels(template).get(ROLE_LABEL, name))


def _added(resource: Resource, key: str, replicas: Iterable[str]) -> Sequence[kube.Container]:
    """Return the init containers that the operator adds to the pods of this role."""
    if resource.kind == "MPIJob" and resource.api_version in KUBECTL_VERSIONS and key == "Launcher":
        return [KUBECTL_DELIVERY]
    if resource.kind == "PyTorchJob" and key == "Worker" and "Master" in replicas:
        return [INIT_PYTORCH]
    return []


def _number(spec: kube.WorkloadSpec) -> int:
    """Return how many pods run at once: of a StatefulSet, of a Job, which may need fewer, or the one Pod."""
    wanted = spec.replicas if spec.parallelism is None else spec.parallelism
    pods = 1 if wanted is None else wanted
    return pods if spec.completions is None else min(pods, spec.completions)


def _distinct(roles: Sequence[tuple[Resource, PodRole]]) -> Iterator[PodRole]:
    """Name roles of the same name after their resources, too."""
    times = Counter(role.name for _, role in roles)
    for resource, role in roles:
        yield role if times[role.name] == 1 else replace(role, name=f"{resource.name}/{role.name}")


def _place(role: PodRole) -> int:
    return ROLES.index(role.name) if role.name in ROLES else len(ROLES)


def _follows(resource: Resource) -> bool:
    """Tell the job's own resource from those that only serve it: the Kubeflow kind, or the launcher's Job."""
    return resource.kind not in REPLICAS and not resource.name.endswith("-launcher")


def _is_ours(found: tuple[Resource, kube.Workload]) -> bool:
    spec = found[1].spec
    replicas = [replica.template for key in REPLICAS.values() for replica in (getattr(spec, key) or {}).values()]
    return all(_labels(template).get(NAME_LABEL) == CHART for template in replicas or [spec.template])


def _labels(template: kube.PodTemplate | None) -> dict[str, str]:
    return (template and template.metadata and template.metadata.labels) or {}
