"""Read a job from a rendered manifest: the resources that own the job's pods, and the pods of each role.

The pods include what the operators and the API server add later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.errors import ValuesError
from distrain.kube import form
from distrain.kube.form import FormError
from distrain.kube.quantities import Units, all_thousandths
from distrain.kube.resource import Resource
from distrain.pods.pod_requests import pod_request
from distrain.workload import controllers, counted_objects, documents
from distrain.workload.controllers import Added, ObjectName, PodOwner
from distrain.workload.counted_objects import CountedObject
from distrain.workload.created_objects import CreatedObjects, key_of, storage_of
from distrain.workload.defaulting import stored
from distrain.workload.documents import hook_of
from distrain.workload.kinds import KUBEFLOW
from distrain.workload.left_out import left_out
from distrain.workload.object_sizes import TooLarge, annotated_too_much, too_large
from distrain.workload.policies import Policies, policies_of
from distrain.workload.slots import slots_of
from distrain.workload.stateful_sets import NumberedNames, claim_templates

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
ROLE_LABEL = "app.kubernetes.io/component"
CHART = "distrain"

KEYGEN, MASTER, WORKER = "keygen", "master", "worker"
# Kubeflow's role names in lower case, in the order of a report. The main role comes last.
ROLES = (KEYGEN, "launcher", "chief", "scheduler", "server", "ps", "evaluator", MASTER, WORKER)
# For each kind, the attribute of kube.WorkloadSpec that contains the replica specs.
_ATTRIBUTES = {each.encode_name: each.name for each in msgspec.structs.fields(kube.WorkloadSpec)}
REPLICAS = {kind.name: _ATTRIBUTES[kind.replicas] for kind in KUBEFLOW.values()}
OTHERS = {("batch/v1", "Job"), ("apps/v1", "StatefulSet"), ("v1", "Pod")}
KINDS = ", ".join([*KUBEFLOW, "Job, StatefulSet or Pod"])
# Objects of these kinds create pods, but distrain's commands do not support them.
NOT_JUDGED = {
    *("Deployment", "ReplicaSet", "DaemonSet", "ReplicationController", "CronJob"),
    *("LeaderWorkerSet", "JobSet", "TrainJob", "RayJob", "RayCluster", "PaddleJob", "XGBoostJob"),
}


class PodRole(Struct, frozen=True):
    """Equal pods of a job, in the form in which their controller will create them.

    `component` is the value of their label app.kubernetes.io/component. `varying` are keys of labels whose values
    differ between pods or are unknown before the pods exist. `labels` leaves out the labels in `varying`. `namespace`
    is empty if the manifest names none. `owner` is the resource whose controller creates the pods. `claim_templates`
    are the specs of the claim templates in the StatefulSet `stateful_set`, by name. `first_ordinal` is the first pod's
    number. `workload` is the object with the pod template, and `template` its spec, as in the manifest.
    """

    name: str
    replicas: int
    spec: kube.TemplateSpec
    request: Units
    component: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()
    annotations: dict[str, str] = field(default_factory=dict)
    owner: Resource | None = None
    claim_templates: dict[str, kube.ClaimSpec] = field(default_factory=dict)
    stateful_set: str = ""
    first_ordinal: int = 0
    workload: kube.Workload = field(default_factory=kube.Workload)
    template: kube.TemplateSpec = field(default_factory=kube.TemplateSpec)

    @property
    def claims_of_set(self) -> dict[str, NumberedNames]:
        """Return the names of the claims that the StatefulSet controller creates for the pods, by claim template."""
        return {
            template: NumberedNames(f"{template}-{self.stateful_set}-", self.first_ordinal, self.replicas)
            for template in self.claim_templates
        }

    def pods(self, number: int) -> str:
        """Return a number of pods in words: "1 launcher", "3 workers", "3 ps" or "2 pods of web"."""
        if self.name not in ROLES:
            return f"{number} pod{'s' if number != 1 else ''} of {self.name}"
        return f"{number} {self.name}{'s' if number != 1 and self.name != 'ps' else ''}"


class Job(Struct, frozen=True):
    """A job: its resources and roles.

    The job ends when the first of its resources ends. If `from_chart` is true, distrain's chart has rendered the pods,
    so messages can name the chart's values. `created` are the objects that the manifest or the operators create.
    `slots` is the number of ranks per worker, or None if the program decides it. `left_out` names objects that no check
    considers and that may create pods. `policies` are the manifest's. `objects` are the objects, apart from pods and
    `resources`, that quotas count and that the manifest or an operator creates. `generated` names objects whose names
    the API server generates. `too_large` are the objects that cannot be stored.
    """

    resources: tuple[Resource, ...]
    roles: tuple[PodRole, ...]
    from_chart: bool = False
    created: CreatedObjects = CreatedObjects()
    slots: int | None = None
    left_out: tuple[str, ...] = ()
    policies: Policies = Policies()
    objects: tuple[CountedObject, ...] = ()
    generated: tuple[str, ...] = ()
    too_large: tuple[TooLarge, ...] = ()

    @property
    def creates(self) -> frozenset[ObjectName]:
        """Return the kinds and names of the objects that the manifest or the operators create."""
        return frozenset(name for _, name in self.created.names)

    @property
    def main(self) -> PodRole:
        """Return the main role: the workers or, in a job without workers, the role with the most pods."""
        workers = [role for role in self.roles if role.name == WORKER]
        return workers[0] if workers else max(reversed(self.roles), key=lambda role: role.replicas)

    @property
    def others(self) -> tuple[PodRole, ...]:
        return tuple(role for role in self.roles if role is not self.main)

    def of_release(self, name: str, revision: int = 0, history_max: int = 0) -> Job:
        """Return the job, together with the object in which Helm records this revision of the release."""
        return replace(self, objects=(*self.objects, *counted_objects.of_release(name, revision, history_max)))

    def in_namespaces(self, namespace: str) -> Job:
        """Return the job with a namespace for every role and object: its own or, if it has none, `namespace`."""
        roles = tuple(replace(role, namespace=role.namespace or namespace) for role in self.roles)
        objects = tuple(each.in_namespaces(namespace) for each in self.objects)
        policies, created = self.policies.in_namespaces(namespace), self.created.in_namespaces(namespace)
        return replace(self, roles=roles, policies=policies, objects=objects, created=created)

    def by_namespace(self) -> dict[str, Job]:
        """Split the job by the namespaces of its roles, and of the other objects that quotas count."""
        roles: dict[str, list[PodRole]] = {}
        for role in self.roles:
            roles.setdefault(role.namespace, []).append(role)
        for namespace in (*(each.namespace for each in self.objects), *self.created.claim_namespaces):
            roles.setdefault(namespace, [])
        return {namespace: self._only(namespace, part) for namespace, part in roles.items()}

    def _only(self, namespace: str, roles: Sequence[PodRole]) -> Job:
        owners = {role.owner for role in roles}
        # A job in another namespace may have the same kind and name.
        resources = tuple(each for each in dict.fromkeys(self.resources) if each in owners)
        objects = tuple(each for each in self.objects if each.namespace == namespace)
        created = self.created.of(namespace)
        return replace(self, roles=tuple(roles), resources=resources, objects=objects, created=created)

    @property
    def ranks_beside(self) -> int:
        """Count the ranks that workers.replicas includes but that are not workers: the Master of a PyTorchJob."""
        return sum(role.replicas for role in self.others if role.name == MASTER and self.main.name == WORKER)

    @property
    def ranks(self) -> int | None:
        """Return the number of ranks, or None if the program decides it."""
        if self.slots is None or self.main.name != WORKER:
            return None
        return (self.main.replicas + self.ranks_beside) * self.slots


def from_manifest(manifest: str, origin: str, *, judges_all: bool = False) -> Job:
    """Read the job from rendered resources; `origin` is the flag, or flag and file, that messages name.

    Leave out Helm hooks, as they run before or after the job. Raise ValuesError if there is no job or Kubernetes would
    refuse it. With `judges_all`, also refuse other objects if they create pods, have no name or occur twice.
    """
    items, generated = documents.with_names(documents.objects(manifest, origin))
    if judges_all:
        _refuse_other_pods(items, origin)
        documents.refuse_nameless((item for item in items if not _holds_pods(item)), origin)
        documents.refuse_twice((item for item in items if hook_of(item) is None), origin)
    named = [(documents.name_of(item), item) for item in items if _holds_pods(item)]
    found = documents.each_of(named, origin, _parsed)
    if not found:
        raise ValuesError(f"{origin}: contains no {KINDS}, so there is nothing to check")
    roles = [(resource, role) for resource, workload in found for role in _roles(resource, workload)]
    resources = sorted((resource for resource, _ in found), key=follows_main)
    made = [item for item in items if documents.is_made_before(item)]
    names = {*map(key_of, made), *(each for resource, workload in found for each in _made(resource, workload))}
    return Job(
        resources=tuple(resources),
        roles=tuple(sorted(_distinct(roles), key=place_of)),
        from_chart=all(map(_is_ours, found)),
        created=CreatedObjects(frozenset(names), storage_of(made, origin)),
        slots=slots_of(*found[0], items),
        left_out=tuple(left_out(items, _holds_pods)) if judges_all else (),
        policies=policies_of(items, origin),
        objects=tuple(dict.fromkeys([*counted_objects.of_manifest(items, origin, _holds_pods), *_counted(found)])),
        generated=tuple(generated),
        too_large=(*too_large(items), *annotated_too_much(item for item in items if not _holds_pods(item))),
    )


def prepare() -> None:
    """Let msgspec build its converters for jobs while Helm renders a manifest: building them takes 3 ms."""
    form.converted({}, kube.Workload)


def templates_of(spec: kube.WorkloadSpec) -> list[kube.PodTemplate | None]:
    """Return the pod templates of a Kubeflow job's roles, or the single template of another workload."""
    roles = [role for attribute in REPLICAS.values() for role in (getattr(spec, attribute) or {}).values()]
    return [role.template for role in roles] or [spec.template]


def _refuse_other_pods(items: Iterable[dict[str, Any]], origin: str) -> None:
    """Raise ValuesError if a resource creates pods that the check ignores: beside them, the job may not fit."""
    found = [item for item in items if item.get("kind") in NOT_JUDGED and hook_of(item) is None]
    if found:
        names = [documents.name_of(item) for item in found]
        words = f"{', '.join(names)}: creates pods, but distrain checks only the pods of an {KINDS}"
        raise ValuesError(f"{origin}: {words}; leave it out, or write its pods as a StatefulSet or a Job")


def _holds_pods(item: dict[str, Any]) -> bool:
    version, kind = str(item.get("apiVersion")), str(item.get("kind"))
    known = KUBEFLOW.get(kind)
    makes_pods = (version, kind) in OTHERS or (known is not None and version.startswith(f"{known.group}/"))
    return makes_pods and hook_of(item) is None


def _made(resource: Resource, workload: kube.Workload) -> Iterator[tuple[str, ObjectName]]:
    """Yield the objects that the controller of the job creates for the job's pods."""
    owner, replicas = _owner(resource, workload)
    for role in replicas:
        for name in controllers.added(owner, role).creates:
            yield workload.metadata.namespace, name


def _counted(found: Iterable[tuple[Resource, kube.Workload]]) -> Iterator[CountedObject]:
    """Yield the objects other than pods that the controllers create."""
    for resource, workload in found:
        names = (name for _, name in _made(resource, workload))
        yield from counted_objects.of_operator(names, workload.metadata.namespace)


def _parsed(item: dict[str, Any]) -> tuple[Resource, kube.Workload]:
    """Convert an object that creates pods; raise FormError if its form is not that of its kind, or it has no pods."""
    item = controllers.understood(item)
    resource = Resource(item["apiVersion"], item["kind"], (item.get("metadata") or {}).get("name") or "without a name")
    if resource.kind == "Pod":
        template = form.converted(item, kube.PodTemplate)
        workload = kube.Workload(template.metadata or kube.TemplateMetadata(), kube.WorkloadSpec(template=template))
    else:
        workload = form.converted(item, kube.Workload)
    _refuse_without_pods(resource, workload, item.get("spec"))
    return resource, workload


def _refuse_without_pods(resource: Resource, workload: kube.Workload, spec: object) -> None:
    """Raise FormError if an object lacks its roles or its pod template, or the number of its workers."""
    if resource.kind == "Pod":
        return
    if resource.kind not in REPLICAS:
        if not workload.spec.template:
            raise documents.missing("spec.template", spec, "write the pods there")
        return
    name = KUBEFLOW[resource.kind].replicas
    if not (roles := getattr(workload.spec, REPLICAS[resource.kind])):
        raise documents.missing(f"spec.{name}", spec, "write its roles there")
    if resource.kind == "MPIJob":
        _refuse_roles(f"spec.{name}", roles)


def _refuse_roles(path: str, roles: Mapping[str, kube.ReplicaSpec]) -> None:
    """Raise FormError if an MPIJob has no launcher, no number of workers, or a role that no operator creates."""
    if "Launcher" not in roles:
        raise documents.missing(f"{path}.Launcher", roles, "write the pod that starts mpirun there")
    if unknown := [key for key in roles if key not in ("Launcher", "Worker")]:
        raise FormError(f"{path}.{unknown[0]}: no operator creates pods for it; write its pods as Launcher or Worker")
    if "Worker" in roles and roles["Worker"].replicas is None:
        raise FormError(f"{path}.Worker.replicas is missing, so that there are no workers; write how many there are")


def _roles(resource: Resource, workload: kube.Workload) -> Iterator[PodRole]:
    owner, replicas = _owner(resource, workload)
    for role, replica in replicas.items():
        name = role or _labels(replica.template).get(ROLE_LABEL, resource.name)
        found = _role(name, replica, controllers.added(owner, role), workload.metadata.namespace)
        found = _with_claim_templates(found, resource, workload.spec)
        template = (replica.template and replica.template.spec) or kube.TemplateSpec()
        yield replace(found, owner=resource, workload=workload, template=template)


def _owner(resource: Resource, workload: kube.Workload) -> tuple[PodOwner, dict[str, kube.ReplicaSpec]]:
    """Return the owner of the pods and the spec of each role. A kind without roles has one unnamed role."""
    spec = workload.spec
    replicas: dict[str, kube.ReplicaSpec] = {"": kube.ReplicaSpec(number_of_pods(resource.kind, spec), spec.template)}
    is_kubeflow = resource.kind in REPLICAS
    if is_kubeflow:
        # The training-operator ignores the case of role names: defaulting_utils.go setTypeNameToCamelCase
        replicas = {key.lower(): one for key, one in (getattr(spec, REPLICAS[resource.kind]) or {}).items()}
    in_gang = bool(is_kubeflow and spec.run_policy and spec.run_policy.scheduling_policy)
    return PodOwner(resource.api_version, resource.kind, resource.name, frozenset(replicas), in_gang), replicas


def _role(name: str, replica: kube.ReplicaSpec, added: Added, namespace: str) -> PodRole:
    template = replica.template
    spec = added.to((template and template.spec) or kube.TemplateSpec())
    try:
        _refuse_odd_quantities(spec)
        spec = stored(spec)
        request = pod_request(spec)
    except ValueError as error:
        raise ValuesError(f"{name}: resources: {error}; write amounts such as 2, 500m or 4Gi") from error
    labels = {key: value for key, value in {**_labels(template), **added.labels}.items() if key not in added.varying}
    number = 1 if replica.replicas is None else replica.replicas
    component = _labels(template).get(ROLE_LABEL, name)
    annotations = (template and template.metadata and template.metadata.annotations) or {}
    return PodRole(name, number, spec, request, component, namespace, labels, added.varying, annotations)


def _with_claim_templates(role: PodRole, resource: Resource, spec: kube.WorkloadSpec) -> PodRole:
    """Add a StatefulSet's claim templates. Each of them replaces the pod template's volume of the same name."""
    if resource.kind != "StatefulSet":
        return role
    claims = claim_templates(resource.name, spec)
    volumes = [volume for volume in role.spec.volumes or () if volume.name not in claims]
    first = (spec.ordinals and spec.ordinals.start) or 0
    role = replace(role, spec=replace(role.spec, volumes=volumes), claim_templates=claims)
    return replace(role, stateful_set=resource.name, first_ordinal=first)


def _refuse_odd_quantities(spec: kube.PodSpec) -> None:
    """Raise ValueError for an amount that is not a quantity, even in fields that do not count for the pod's request."""
    all_thousandths(spec.overhead)
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    for resources in (spec.resources, *(container.resources for container in containers)):
        if resources:
            all_thousandths(resources.requests)
            all_thousandths(resources.limits)
    for volume in spec.volumes or ():
        form.refuse_odd_amounts(volume.ephemeral)


def number_of_pods(kind: str, spec: kube.WorkloadSpec) -> int:
    """Return how many pods of a StatefulSet, a Job or a Pod run at the same time.

    If a Job has fewer completions than its parallelism, the number of its pods is the number of completions. Fields
    that belong to another kind are ignored or refused by Kubernetes.
    """
    wanted, most = (spec.parallelism, spec.completions) if kind == "Job" else (spec.replicas, None)
    pods = 1 if wanted is None else wanted
    return pods if most is None else min(pods, most)


def _distinct(roles: Sequence[tuple[Resource, PodRole]]) -> Iterator[PodRole]:
    """Add the resource's name to roles whose names are not unique; if needed, also its kind and namespace."""
    names = [role.name for _, role in roles]
    for prefix in (
        lambda resource, _: resource.name,
        lambda resource, _: resource.kind,
        lambda _, role: role.namespace or "the job's namespace",
    ):
        times = Counter(names)
        names = [
            name if times[name] == 1 else f"{prefix(*pair)}/{name}" for name, pair in zip(names, roles, strict=True)
        ]
    for name, (_, role) in zip(names, roles, strict=True):
        yield role if name == role.name else replace(role, name=name)


def place_of(role: PodRole) -> int:
    return ROLES.index(role.name) if role.name in ROLES else len(ROLES)


def follows_main(resource: Resource) -> bool:
    """Return False for the job's main resource (a Kubeflow job or the launcher's Job), which is then sorted first."""
    return resource.kind not in REPLICAS and not resource.name.endswith("-launcher")


def _is_ours(found: tuple[Resource, kube.Workload]) -> bool:
    return all(_labels(template).get(NAME_LABEL) == CHART for template in templates_of(found[1].spec))


def _labels(template: kube.PodTemplate | None) -> dict[str, str]:
    return (template and template.metadata and template.metadata.labels) or {}
