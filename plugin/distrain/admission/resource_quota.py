"""ResourceQuota: tell whether the namespace's quotas admit all pods of a job, by the rules of Kubernetes.

Kubernetes pkg/quota/v1/evaluator/core: pods.go and persistent_volume_claims.go, and
staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distrain import kube
from distrain.admission import object_counts
from distrain.admission.new_claims import ClaimChanges, NewClaims
from distrain.admission.object_counts import usage_of_kind
from distrain.admission.refusal import Refusal
from distrain.kube import selectors
from distrain.kube.pod_status import ENDED
from distrain.kube.policy import ResourceQuota, ScopedRequirement
from distrain.kube.quantities import Units, add, text, units
from distrain.pods.pod_requests import held_by, pod_limits, requested
from distrain.verdict import Verdict
from distrain.workload.counted_objects import CountedObject
from distrain.workload.kinds import KUBEFLOW, VERSIONS
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording, counted

COMPUTE = ("cpu", "memory", "ephemeral-storage")
# If a quota limits one of these resources, each container must set a value for it.
REQUIRED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
PVCS, OF_CLASS = "persistentvolumeclaims", ".storageclass.storage.k8s.io/"
OF_ATTRIBUTES = "VolumeAttributesClass"


def refusals(
    job: Job,
    quotas: Sequence[ResourceQuota],
    say: Wording,
    own: Sequence[kube.Pod],
    claims: ClaimChanges = ClaimChanges(),  # noqa: B008, it is frozen
) -> Iterator[Refusal]:
    """Yield a refusal for each quota that the job exceeds.

    `own` are the pods of the release that run in this namespace now. The new job replaces these pods, so the quota that
    these pods and their claims use counts as free. The pods already have the defaults of their namespace and of their
    PriorityClass.
    """
    main = job.main if job.roles else say.job.main
    for quota in quotas:
        roles = [role for role in job.roles if role.replicas and _matches(quota, role.spec)]
        yield from _unspecified(quota, roles, say)
        asked, freed = _total(quota, job, roles), _freed(quota, own)
        add(asked, _of_claims(quota, claims.new))
        add(freed, _of_claims(quota, claims.ending))
        yield from _exceeded(quota, asked, freed, say.place(main))


def counts(quotas: Sequence[ResourceQuota], found: CountedObject) -> bool:
    """Tell whether one of the quotas counts an object."""
    names = object_counts.usage(found)
    return any(name in names for quota in quotas if not scopes_of(quota) for name in _hard(quota))


def not_judged(job: Job, quotas: Sequence[ResourceQuota], claims: Sequence[NewClaims] = ()) -> Iterator[str]:
    """Yield a line for each quota that limits something which this module does not count, such as Secrets."""
    has_classes = all(each.spec.storage_class_name is not None for each in claims)
    for quota in quotas:
        known, has_operator = _total(quota, job, job.roles), any(each.kind in KUBEFLOW for each in job.resources)
        names = [name for name in _hard(quota) if not (scopes_of(quota) and name.startswith("count/"))]
        rest = sorted(
            name
            for name in names
            if not (is_of_pods(name) or object_counts.is_complete(name, has_operator=has_operator))
            and (name in object_counts.SERVICES or name not in known)
            and (_has_scope_of_pods(quota) or not _is_of_claims(name, has_classes=has_classes))
        )
        if rest:
            yield f"ResourceQuota {quota.metadata.name}: {', '.join(rest)}"


def _exceeded(quota: ResourceQuota, asked: Units, freed: Units, place: str) -> Iterator[Refusal]:
    hard = {name: units(_resource(name), bound) for name, bound in sorted(_hard(quota).items()) if asked.get(name)}
    used = {name: max(0, units(_resource(name), _used(quota).get(name, 0)) - freed.get(name, 0)) for name in hard}
    exceeded = [name for name, bound in hard.items() if asked[name] + used[name] > bound]
    if not exceeded:
        return
    figures = [_listed(exceeded, amounts) for amounts in (asked, used, hard)]
    reason = "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(quota.metadata.name, *figures)
    too_small = [name for name in exceeded if asked[name] > hard[name]]
    name = (too_small or exceeded)[0]
    need, taken, bound = (amount_of(name, amounts[name]) for amounts in (asked, used, hard))
    needed = counted(int(need), "pod") if name in ("pods", "count/pods") else f"{need} of {name}"
    head = f"{place}: the job needs {needed}, and ResourceQuota {quota.metadata.name}"
    if too_small:
        yield Refusal(Verdict.IMPOSSIBLE, reason, f"{head} allows {bound}. Ask for less, or have the quota raised.")
        return
    step = "Wait until other pods of the namespace end" if is_of_pods(name) else "Remove other objects of the namespace"
    yield Refusal(Verdict.BUSY, reason, f"{head} has {taken} of {bound} in use. {step}, or ask for less.")


def _listed(names: Sequence[str], amounts: Units) -> str:
    return ",".join(f"{name}={amount_of(name, amounts[name])}" for name in names)


def amount_of(name: str, amount: int) -> str:
    """Return the amount of a quota's resource as a quantity."""
    return text(_resource(name), amount)


def _resource(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")


def _unspecified(quota: ResourceQuota, roles: Sequence[PodRole], say: Wording) -> Iterator[Refusal]:
    required = sorted(name for name in REQUIRED if name in _hard(quota))
    for role in roles:
        missing = {} if _has_pod_level(role.spec) else {name: _without(role.spec, name) for name in required}
        if words := "; ".join(f"{name} for: {','.join(names)}" for name, names in missing.items() if names):
            step = f"{say.place(role)}: ResourceQuota {quota.metadata.name} refuses its pods: must specify {words}."
            reason = f"failed quota: {quota.metadata.name}: must specify {words}"
            yield Refusal(Verdict.IMPOSSIBLE, reason, f"{step} Set it, or have a LimitRange give a default.")


def _without(spec: kube.PodSpec, name: str) -> list[str]:
    """Return the names of the containers that do not set a value for a resource of the quota."""
    return sorted({each.name for each in _containers(spec) if not _says(each, name)})


def _says(container: kube.Container, name: str) -> bool:
    kind, _, resource = name.rpartition(".")
    resources = container.resources or kube.Resources()
    return resource in ((resources.limits or {}) if kind == "limits" else requested(resources))


def _containers(spec: kube.PodSpec) -> list[kube.Container]:
    return [*(spec.containers or ()), *(spec.init_containers or ())]


def _has_pod_level(spec: kube.PodSpec) -> bool:
    resources = spec.resources or kube.Resources()
    names = {*(resources.requests or {}), *(resources.limits or {})}
    return any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in names)


def _total(quota: ResourceQuota, job: Job, roles: Sequence[PodRole]) -> Units:
    """Return how much these roles' pods and the job's other objects use of each resource in the quota."""
    total: Units = {}
    for role in roles:
        add(total, _usage(role.request, pod_limits(role.spec)), role.replicas)
    # A quota with scopes counts only pods.
    if scopes_of(quota):
        return total
    for resource in job.resources:
        if resource.kind != "Pod":
            add(total, usage_of_kind(resource.api_version, resource.kind))
    for each in job.objects:
        add(total, object_counts.usage(each))
    return total


def usage_by(quota: ResourceQuota, pods: Sequence[kube.Pod]) -> Units:
    """Return how much the existing pods use of each resource in the quota.

    Once a pod has ended, it counts only as an object (count/pods).
    """
    total: Units = {}
    for pod in pods:
        if _matches(quota, pod.spec):
            add(total, {"count/pods": 1} if _has_ended(pod) else _usage(held_by(pod), pod_limits(pod.spec)))
    return total


def _of_claims(quota: ResourceQuota, claims: Sequence[NewClaims]) -> Units:
    """Return how much of the quota these claims use; claims outside of the quota's scopes use nothing."""
    total: Units = {}
    for claim in (each for each in claims if _counts_claim(quota, each.spec)):
        storage = claim.spec.requests.get("storage", 0)
        used = {PVCS: 1, "requests.storage": units("storage", storage)}
        add(total, {**used, f"count/{PVCS}": 1}, claim.number)
        if name := claim.spec.storage_class_name:
            add(total, {f"{name}{OF_CLASS}{resource}": amount for resource, amount in used.items()}, claim.number)
    return total


def _freed(quota: ResourceQuota, own: Sequence[kube.Pod]) -> Units:
    """Return how much of the quota is freed once the release's pods, their owners and the operator's objects end."""
    total = usage_by(quota, [pod for pod in own if not _has_ended(pod)])
    owners = {owner.uid: owner for pod in own for owner in pod.metadata.owner_references or ()}
    for owner in owners.values():
        add(total, usage_of_kind(owner.api_version, owner.kind))
        version = VERSIONS.get((owner.api_version, owner.kind))
        for kind in version.creates if version else ():
            add(total, usage_of_kind("v1", kind))
    return total


def _has_ended(pod: kube.Pod) -> bool:
    return pod.status.phase in ENDED


def _usage(request: Mapping[str, int], limits: Mapping[str, int]) -> Units:
    """Return how much quota one pod with these requests and limits uses."""
    usage: Units = {"pods": 1, "count/pods": 1}
    for name, amount in request.items():
        if name in COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
        if name != "pods":
            usage[f"requests.{name}"] = amount
    return {**usage, **{f"limits.{name}": amount for name, amount in limits.items() if name in COMPUTE}}


def _hard(quota: ResourceQuota) -> kube.Amounts:
    return quota.status.hard or quota.spec.hard or {}


def _used(quota: ResourceQuota) -> kube.Amounts:
    return quota.status.used or {}


def is_of_pods(name: str) -> bool:
    """Tell whether only pods use this resource of a quota."""
    storage = name == "requests.storage" or OF_CLASS in name
    return not storage and (
        name in (*COMPUTE, "pods", "count/pods") or name.startswith(("requests.", "limits.", "hugepages-"))
    )


def _has_scope_of_pods(quota: ResourceQuota) -> bool:
    return any(each.scope_name != OF_ATTRIBUTES for each in scopes_of(quota))


def _is_of_claims(name: str, *, has_classes: bool) -> bool:
    """Tell whether only claims use this resource of a quota.

    For a quota on the claims of one storage class, the answer is true only if `has_classes` is true.
    """
    return name in (PVCS, f"count/{PVCS}", "requests.storage") or (has_classes and OF_CLASS in name)


def _matches(quota: ResourceQuota, spec: kube.PodSpec) -> bool:
    """Tell whether the quota counts pods with this spec, that is, whether all scopes of the quota match."""
    return all(_in_scope(scope, spec) for scope in scopes_of(quota))


def _counts_claim(quota: ResourceQuota, spec: kube.ClaimSpec) -> bool:
    """Tell whether the quota counts claims with this spec. The only scope for claims is their VolumeAttributesClass."""
    name = spec.volume_attributes_class_name or None
    return all(each.scope_name == OF_ATTRIBUTES and _selects(each, name) for each in scopes_of(quota))


def _selects(scope: ScopedRequirement, name: str | None) -> bool:
    return selectors.holds(kube.Requirement(scope.scope_name, scope.operator, scope.values), name)


def scopes_of(quota: ResourceQuota) -> list[ScopedRequirement]:
    selector = quota.spec.scope_selector
    scopes = [ScopedRequirement(name, "Exists") for name in quota.spec.scopes or ()]
    return [*scopes, *((selector and selector.match_expressions) or ())]


def _in_scope(scope: ScopedRequirement, spec: kube.PodSpec) -> bool:
    match scope.scope_name:
        case "Terminating":
            return spec.active_deadline_seconds is not None
        case "NotTerminating":
            return spec.active_deadline_seconds is None
        case "BestEffort":
            return _is_best_effort(spec)
        case "NotBestEffort":
            return not _is_best_effort(spec)
        case "PriorityClass":
            return _selects(scope, spec.priority_class_name or None)
        case "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(spec))
    return False


def _affinity_terms(spec: kube.PodSpec) -> Iterator[kube.PodTerm]:
    """Yield the required and the preferred terms of a pod's affinity and anti-affinity to other pods."""
    affinity = spec.affinity or kube.Affinity()
    for each in filter(None, (affinity.pod_affinity, affinity.pod_anti_affinity)):
        yield from each.required or ()
        yield from (weighted.pod_affinity_term for weighted in each.preferred or ())


def _is_best_effort(spec: kube.PodSpec) -> bool:
    """Tell whether the pod has neither a request nor a limit of cpu or memory.

    Pod-level resources count instead of the containers' resources.
    """
    every = [spec.resources] if spec.resources else [each.resources for each in _containers(spec) if each.resources]
    kinds = [amounts for each in every for amounts in (each.requests, each.limits) if amounts]
    return not any(units(name, amounts.get(name, 0)) for amounts in kinds for name in ("cpu", "memory"))
