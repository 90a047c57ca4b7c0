"""Apply the defaults of the namespace and the cluster to a job.

Collect the refusals that do not depend on free capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from distrain.admission import (
    gang_scheduler,
    limit_ranger,
    pod_security,
    pod_validation,
    priority,
    resource_quota,
    runtime_class,
)
from distrain.admission.refusal import Refusal
from distrain.admission.validation import refusals as validation
from distrain.check.dependencies import Dependencies, needs, on_nodes, references, with_namespace, with_policies
from distrain.check.gpus import gpus_of
from distrain.check.missing_objects import missing
from distrain.check.volumes import attach_limits, free_storage, volume_claims
from distrain.kube.selectors import Labels
from distrain.scheduler.affinity_terms import NamespaceLabels
from distrain.scheduler.constraints import JobConstraints, constraints_of, unknown_labels
from distrain.scheduler.messages import GATED
from distrain.scheduler.node_volume_limits import AttachLimits
from distrain.scheduler.wait_for_first_consumer import SharedVolumes, shared_volumes
from distrain.verdict import Verdict
from distrain.workload.left_out import is_custom
from distrain.workload.manifest import Job
from distrain.workload.suspension import manager
from distrain.workload.wording import Wording

K = TypeVar("K")
T = TypeVar("T")

# A function that returns the Secrets, ConfigMaps and other objects that the pods of one namespace depend on.
Find = Callable[[Job, str], Dependencies]


class PreparedJob(Struct, frozen=True):
    """A job with the defaults of its namespaces and PriorityClasses, and the scheduling constraints of its pods.

    `gpu_resource` is the resource name of its GPUs. `refusals` apply even if the nodes have enough free capacity.
    `unseen` names what was not judged. `open_claims` are claims whose volume gets its location only when the first pod
    is placed on a node. `own` is the number of pods of the release that use a node now.
    """

    job: Job
    gpu_resource: str
    constraints: JobConstraints
    refusals: tuple[Refusal, ...] = ()
    unseen: tuple[str, ...] = ()
    open_claims: tuple[str, ...] = ()
    own: int = 0


class _Part(Struct, frozen=True):
    """The roles of a job in one namespace, and the objects that they depend on."""

    job: Job
    namespace: str
    found: Dependencies
    claims: volume_claims.Claims

    @property
    def new(self) -> Job:
        """Return the job without the objects that exist already."""
        objects = tuple(each for each in self.job.objects if each not in self.found.existing)
        return replace(self.job, objects=objects)

    @property
    def labels(self) -> Labels:
        """Return the labels of the namespace, or {} if they are not known."""
        return (self.found.namespaces or self.job.policies.labels).get(self.namespace) or {}

    def refusals(self, say: Wording) -> Iterator[Refusal]:
        """Yield the refusals that depend neither on nodes nor on the pods that run on nodes."""
        job, found = self.job, self.found
        yield from _unserved(found, say)
        yield from gang_scheduler.refusals(job, found.gang_schedulers, say)
        yield from _ending(found, self.namespace)
        yield from _gates(job, say)
        yield from validation.refusals(job, say)
        yield from validation.refusals_of_objects(job)
        yield from validation.refusals_of_sizes(job)
        yield from pod_validation.refusals(job, found.limit_ranges or (), say)
        yield from pod_security.refusals(job, self.namespace, self.labels, say, found.server_minor)
        yield from limit_ranger.refusals(job, found.limit_ranges or (), say)
        yield from limit_ranger.refusals_of_claims(self.claims.changes.new, found.limit_ranges or (), say)
        yield from self._missing(say)
        yield from self.claims.refusals
        yield from resource_quota.refusals(self.new, found.quotas or (), say, found.own, self.claims.changes)

    def _missing(self, say: Wording) -> Iterator[Refusal]:
        """Yield a refusal for each missing object that the pods need, unless a controller may create the object."""
        roles = references(self.job)
        for kind, name in sorted(self.found.missing):
            needing = [role for role in roles[kind, name] if (kind, name) in needs(role.spec)]
            if needing and not _maker(kind, say.job):
                role = self.job.main if self.job.main in needing else needing[0]
                yield missing(self.found, self.namespace, (kind, name), role, say)

    def unseen(self, whole: Job) -> Iterator[str]:
        """Name what was not judged. `whole` is the job with the roles of all namespaces."""
        yield from self.found.unseen
        yield from self.claims.unseen
        for kind, name in sorted(self.found.missing):
            if maker := _maker(kind, whole):
                yield f"whether {maker} of the manifest creates {kind} {name}, which is not there"
            elif not any((kind, name) in needs(role.spec) for role in self.job.roles):
                yield f"whether nodes can pull the image without {kind} {name} (imagePullSecrets), which is not there"
        yield from gang_scheduler.not_judged(self.job, self.found.gang_schedulers)
        yield from runtime_class.not_judged(self.job, self.found.runtime_classes)
        yield from pod_security.not_judged(self.job, self.labels, self.found.server_minor)
        yield from attach_limits.not_judged(self.job, self.found)
        yield from free_storage.not_judged(self.job, self.found)
        yield from resource_quota.not_judged(self.job, self.found.quotas or (), self.claims.changes.new)


def prepare(job: Job, namespace: str, find: Find, gpu_resource: str | None) -> PreparedJob:
    """Apply the namespaces' defaults to the job, and check everything except nodes and the pods that run on them.

    `namespace` is used for pods whose manifest names no namespace. Without `gpu_resource`, the name of the GPU resource
    is guessed from the pods' requests.
    """
    gpus = gpu_resource or gpus_of(job)
    job = job.in_namespaces(namespace)
    given = [(part, where, _found(part, where, find)) for where, part in job.by_namespace().items()]
    before = Wording(job, gpus)
    refused = [each for part, _, found in given for each in priority.refusals(part, found.priority_classes, before)]
    refused += [
        each for part, _, found in given for each in runtime_class.refusals(part, found.runtime_classes, before)
    ]
    admitted = [(_with_defaults(part, found), where, found) for part, where, found in given]
    job = _joined(job, [part for part, _, _ in admitted])
    say = Wording(job, gpus)
    parts = [_Part(part, where, found, volume_claims.judge_claims(part, found, say)) for part, where, found in admitted]
    refused += priority.refusals_of_classes(job.policies.priority_classes, parts[0].found.priority_classes)
    refused += priority.refusals_of_changes(job.policies.priority_classes, parts[0].found.former_classes)
    refused += [each for part in parts for each in part.refusals(say)]
    unseen = [*job.left_out, *(each for part in parts for each in part.unseen(job))]
    unseen += [*unknown_labels(job), *_elsewhere(job)]
    # Claims of different namespaces may compete for the same volumes.
    shared = shared_volumes(job, _united(part.claims.rules for part in parts))
    return PreparedJob(
        job,
        gpus,
        _constraints(job, parts, shared),
        tuple(dict.fromkeys(refused)),
        tuple(dict.fromkeys(unseen)),
        tuple(claim for opened in (*(part.claims.open for part in parts), shared.undecided) for claim in opened),
        sum(on_nodes(part.found.own) for part in parts),
    )


def _found(part: Job, namespace: str, find: Find) -> Dependencies:
    """Return the objects that the job's pods need in a namespace. The manifest's policies count as created."""
    return with_namespace(with_policies(find(part, namespace), part.policies, namespace), namespace)


def _with_defaults(part: Job, found: Dependencies) -> Job:
    part = priority.applied(limit_ranger.applied(part, found.limit_ranges or ()), found.priority_classes)
    return runtime_class.applied(part, found.runtime_classes)


def _joined(job: Job, parts: Sequence[Job]) -> Job:
    """Return the job, with each role replaced by the role of the same name in `parts`."""
    roles = {role.name: role for part in parts for role in part.roles}
    return replace(job, roles=tuple(roles[role.name] for role in job.roles))


def _constraints(job: Job, parts: Sequence[_Part], shared: SharedVolumes) -> JobConstraints:
    priorities = [role.spec.priority or 0 for role in job.roles]
    return constraints_of(
        job,
        job.main.namespace,
        NamespaceLabels(_labels(parts)),
        priorities=(min(priorities), max(priorities)),
        volumes=_united(part.claims.rules for part in parts),
        exclusive_claims=frozenset().union(*(part.claims.exclusive for part in parts)),
        attach_limits=_attach_limits(parts),
        beside=shared.affinity,
    )


def _attach_limits(parts: Sequence[_Part]) -> AttachLimits:
    """Merge the attach limits of all parts of the job: how many volumes of a CSI driver can be attached to a node."""
    every = [attach_limits.attach_limits(part.job, part.found) for part in parts]
    return AttachLimits(
        _united(each.limits for each in every),
        _united(each.needs for each in every),
        _united(each.claims for each in every),
        _united(each.attachments for each in every),
    )


def _labels(parts: Sequence[_Part]) -> Mapping[str, Labels] | None:
    """Return the labels of the namespaces, or None if the namespace of one of the job's objects could not be read."""
    known = _united(part.found.namespaces or {} for part in parts)
    return known if all(part.namespace in known for part in parts) else None


def _united(maps: Iterable[Mapping[K, T]]) -> dict[K, T]:
    return {key: value for each in maps for key, value in each.items()}


def _gates(job: Job, say: Wording) -> Iterator[Refusal]:
    for role in job.roles:
        names = ", ".join(gate.name for gate in role.spec.scheduling_gates or ())
        if names and role.replicas:
            step = f"{say.place(role)}: no pod is placed before its scheduling gates are lifted: {names}."
            yield Refusal(Verdict.IMPOSSIBLE, GATED, f"{step} Lift them, or leave them out.")


def _unserved(found: Dependencies, say: Wording) -> Iterator[Refusal]:
    for api_version, kind in sorted(found.unserved):
        place = "job.apiVersion" if say.job.from_chart else kind
        step = f"{place}: the cluster does not serve {kind} of {api_version}. Install an operator that does, or choose"
        words = f'no matches for kind "{kind}" in version "{api_version}"'
        yield Refusal(Verdict.IMPOSSIBLE, words, f"{step} another version or kind.")


def _elsewhere(job: Job) -> Iterator[str]:
    if name := manager(job):
        yield f"the nodes of the cluster in which {name} will run the job; those judged here get no pod of it"


def _ending(found: Dependencies, namespace: str) -> Iterator[Refusal]:
    """Yield a refusal if the namespace is being deleted (plugin/pkg/admission/namespace/lifecycle)."""
    if namespace in found.ending_namespaces:
        words = f"unable to create new content in namespace {namespace} because it is being terminated"
        step = f"namespace {namespace} is being deleted. Wait until it is gone and make it again, or name another."
        yield Refusal(Verdict.IMPOSSIBLE, words, step)


def _maker(kind: str, job: Job) -> str:
    """If `kind` is Secret or ConfigMap, name a custom resource of the manifest that may create it (SealedSecret)."""
    if kind not in ("Secret", "ConfigMap"):
        return ""
    custom = (each.resource for each in job.objects if is_custom(each.resource))
    return next((f"{each.kind} {each.name}" for each in custom), "")
