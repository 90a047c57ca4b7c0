"""ResourceQuota: tell whether the namespace's quotas admit all pods of a job, by the rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distrain import kube
from distrain.admission.refusal import Refusal
from distrain.kube import selectors
from distrain.kube.pod_requests import pod_limits, requested
from distrain.kube.policy import ResourceQuota, ScopedRequirement
from distrain.kube.quantities import Units, text, units
from distrain.scheduler.affinity_terms import stated_terms
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording

COMPUTE = ("cpu", "memory", "ephemeral-storage")
# If a quota limits one of these resources, each container must set a value for it.
REQUIRED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def refusals(job: Job, quotas: Sequence[ResourceQuota], say: Wording, own: Units) -> Iterator[Refusal]:
    """Yield a refusal for each quota that the job exceeds; `own`, the requests of the release's pods, count as free."""
    for quota in quotas:
        roles = [role for role in job.roles if role.replicas and _matches(quota, role.spec)]
        yield from _unspecified(quota, roles, say)
        yield from _exceeded(quota, _total(job, roles), own, say)


def not_judged(job: Job, quotas: Sequence[ResourceQuota]) -> Iterator[str]:
    """Yield the quotas' resources that this module does not count, such as Secrets."""
    for quota in quotas:
        known = _total(job, job.roles)
        rest = sorted(name for name in _hard(quota) if name not in known and not _is_of_pods(name))
        if rest:
            yield f"ResourceQuota {quota.metadata.name}: {', '.join(rest)}"


def _exceeded(quota: ResourceQuota, asked: Units, own: Units, say: Wording) -> Iterator[Refusal]:
    freed = _usage(own, {})
    for name, bound in sorted(_hard(quota).items()):
        resource = name.removeprefix("requests.").removeprefix("limits.")
        need, hard = asked.get(name, 0), units(resource, bound)
        used = max(0, units(resource, (quota.status.used or {}).get(name, 0)) - freed.get(name, 0))
        if need and need + used > hard:
            figures = [text(resource, amount) for amount in (need, used, hard)]
            yield _refusal(quota.metadata.name, name, figures, is_too_small=need > hard, say=say)


def _refusal(quota: str, name: str, figures: Sequence[str], *, is_too_small: bool, say: Wording) -> Refusal:
    need, used, hard = figures
    reason = f"exceeded quota: {quota}, requested: {name}={need}, used: {name}={used}, limited: {name}={hard}"
    head = f"{say.place(say.job.main)}: the job needs {need} of {name}, and ResourceQuota {quota}"
    if is_too_small:
        return Refusal(Verdict.IMPOSSIBLE, reason, f"{head} allows {hard}. Ask for less, or have the quota raised.")
    step = f"{head} has {used} of {hard} in use. Wait until other pods of the namespace end, or ask for less."
    return Refusal(Verdict.BUSY, reason, step)


def _unspecified(quota: ResourceQuota, roles: Sequence[PodRole], say: Wording) -> Iterator[Refusal]:
    required = [name for name in REQUIRED if name in _hard(quota)]
    for role in roles:
        if required and not _has_pod_level(role.spec):
            for name in required:
                without = [each.name for each in _containers(role.spec) if not _says(each, name)]
                if without:
                    words = f"must specify {name} for: {','.join(without)}"
                    step = f"{say.place(role)}: ResourceQuota {quota.metadata.name} refuses its pods: {words}."
                    yield Refusal(Verdict.IMPOSSIBLE, words, f"{step} Set it, or have a LimitRange give a default.")


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


def _total(job: Job, roles: Sequence[PodRole]) -> Units:
    """Return the quota usage of these roles' pods and of the resources that own them."""
    total: Units = {}
    for role in roles:
        for name, amount in _usage(role.request, pod_limits(role.spec)).items():
            total[name] = total.get(name, 0) + amount * role.replicas
    for resource in job.resources:
        group = resource.api_version.rpartition("/")[0].partition("/")[0]
        if group:
            name = f"count/{resource.kind.lower()}s.{group}"
            total[name] = total.get(name, 0) + 1
    return total


def _usage(request: Mapping[str, int], limits: Mapping[str, int]) -> Units:
    pods = request.get("pods", 0)
    usage: Units = {"pods": pods, "count/pods": pods}
    for name, amount in request.items():
        if name in COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
        if name != "pods":
            usage[f"requests.{name}"] = amount
    return {**usage, **{f"limits.{name}": amount for name, amount in limits.items() if name in COMPUTE}}


def _hard(quota: ResourceQuota) -> kube.Amounts:
    return quota.status.hard or quota.spec.hard or {}


def _is_of_pods(name: str) -> bool:
    """Tell whether only pods use this resource of a quota."""
    storage = name == "requests.storage" or ".storageclass." in name
    return not storage and (name in (*COMPUTE, "pods") or name.startswith(("requests.", "limits.", "hugepages-")))


def _matches(quota: ResourceQuota, spec: kube.TemplateSpec) -> bool:
    """Tell whether the quota counts pods of this spec: all of the quota's scopes must match."""
    scopes = [ScopedRequirement(name, "Exists") for name in quota.spec.scopes or ()]
    selector = quota.spec.scope_selector
    return all(_in_scope(scope, spec) for scope in (*scopes, *((selector and selector.match_expressions) or ())))


def _in_scope(scope: ScopedRequirement, spec: kube.TemplateSpec) -> bool:
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
            requirement = kube.Requirement(scope.scope_name, scope.operator, scope.values)
            return selectors.holds(requirement, spec.priority_class_name or None)
        case "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespace_selector is not None for term in stated_terms(spec))
    return False


def _is_best_effort(spec: kube.PodSpec) -> bool:
    """Tell whether no container has a request or limit of cpu or memory."""
    every = [spec.resources, *(container.resources for container in _containers(spec))]
    amounts = [(name, amount) for each in every for name, amount in requested(each).items()]
    return not _has_pod_level(spec) and not any(
        name in ("cpu", "memory") and units(name, amount) for name, amount in amounts
    )
