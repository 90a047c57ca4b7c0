"""LimitRanger: the LimitRanges of a namespace set defaults for containers, and refuse pods outside of their limits.

Kubernetes plugin/pkg/admission/limitranger/admission.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from distrain import kube
from distrain.admission.new_claims import NewClaims
from distrain.admission.refusal import Refusal
from distrain.kube.policy import Limit, LimitRange
from distrain.kube.quantities import text, thousandths, units
from distrain.pods.pod_requests import pod_limits, pod_request, requested
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording


def applied(job: Job, ranges: Sequence[LimitRange]) -> Job:
    """Return the job with the LimitRanges' defaults in its containers."""
    defaults = [default for each in ranges for default in defaults_of(each)]
    return replace(job, roles=tuple(_with_defaults(role, defaults) for role in job.roles)) if defaults else job


def defaults_of(each: LimitRange) -> list[Limit]:
    """Return the LimitRange's limits for containers.

    Missing defaults are filled in by the API server's rules: for example, `max` is used for a missing `default`.
    """
    return [_with_own_defaults(limit) for limit in each.spec.limits or () if limit.type == "Container"]


def refusals(job: Job, ranges: Sequence[LimitRange], say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each limit that the job breaks; the job already has the defaults."""
    for each in ranges:
        for role in (role for role in job.roles if role.replicas):
            for limit in each.spec.limits or ():
                for words in _violations(limit, role.spec):
                    step = f"{say.place(role)}: LimitRange {each.metadata.name} refuses its pods: {words}."
                    yield Refusal(Verdict.IMPOSSIBLE, words, f"{step} Change what they ask for, or the LimitRange.")


def refusals_of_claims(claims: Iterable[NewClaims], ranges: Sequence[LimitRange], say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each limit that a new claim breaks."""
    limits = [(each, limit) for each in ranges for limit in each.spec.limits or ()]
    for claim in claims:
        for each, limit in limits:
            for words in _of_claim(limit, claim.spec) if limit.type == "PersistentVolumeClaim" else ():
                step = f"{claim.place(say)}: LimitRange {each.metadata.name} refuses the claim: {words}."
                yield Refusal(Verdict.IMPOSSIBLE, words, f"{step} Change what it asks for, or the LimitRange.")


def _with_defaults(role: PodRole, defaults: Sequence[Limit]) -> PodRole:
    spec = filled(role.spec, defaults)
    return replace(role, spec=spec, request=pod_request(spec))


def filled(spec: kube.TemplateSpec, defaults: Sequence[Limit]) -> kube.TemplateSpec:
    """Return the pod spec with the defaults in its containers."""
    containers = [_filled(container, defaults) for container in spec.containers or ()]
    init = [_filled(container, defaults) for container in spec.init_containers or ()]
    return replace(spec, containers=containers, init_containers=init)


def _with_own_defaults(limit: Limit) -> Limit:
    # Kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_LimitRangeItem
    default = {**(limit.max or {}), **(limit.default or {})}
    request = {**(limit.min or {}), **default, **(limit.default_request or {})}
    return replace(limit, default=default, default_request=request)


def _filled(container: kube.TemplateContainer, defaults: Sequence[Limit]) -> kube.TemplateContainer:
    resources = container.resources or kube.Resources()
    requests, limits = requested(resources), resources.limits or {}
    for default in defaults:
        limits = {**(default.default or {}), **limits}
        requests = {**(default.default_request or {}), **requests}
    return replace(container, resources=kube.Resources(requests=requests, limits=limits))


def _violations(limit: Limit, spec: kube.TemplateSpec) -> Iterator[str]:
    if limit.type == "Pod":
        spec = replace(spec, overhead=None)
        yield from _broken(limit, _quantities(pod_request(spec)), _quantities(pod_limits(spec)))
    if limit.type == "Container":
        for container in (*(spec.containers or ()), *(spec.init_containers or ())):
            resources = container.resources or kube.Resources()
            yield from _broken(limit, requested(resources), resources.limits or {})


def _of_claim(limit: Limit, spec: kube.ClaimSpec) -> Iterator[str]:
    requests = spec.requests
    for name, bound in sorted((limit.min or {}).items()):
        yield from _below(limit.type, name, bound, requests, {})
    for name, bound in sorted((limit.max or {}).items()):
        words = f"maximum {name} usage per {limit.type} is {_said(name, bound)}"
        if name not in requests:
            yield f"{words}.  No request is specified"
        elif thousandths(requests[name]) > thousandths(bound):
            yield f"{words}, but request is {_said(name, requests[name])}"


def _quantities(amounts: Mapping[str, int]) -> kube.Amounts:
    return {resource: text(resource, amount) for resource, amount in amounts.items()}


def _broken(limit: Limit, requests: kube.Amounts, limits: kube.Amounts) -> Iterator[str]:
    for name, bound in sorted((limit.min or {}).items()):
        yield from _below(limit.type, name, bound, requests, limits)
    for name, bound in sorted((limit.max or {}).items()):
        yield from _above(limit.type, name, bound, requests, limits)
    for name, bound in sorted((limit.max_limit_request_ratio or {}).items()):
        yield from _out_of_ratio(limit.type, name, bound, requests, limits)


def _said(resource: str, quantity: kube.Quantity) -> str:
    return text(resource, units(resource, quantity))


def _below(kind: str, name: str, bound: kube.Quantity, requests: kube.Amounts, limits: kube.Amounts) -> Iterator[str]:
    words = f"minimum {name} usage per {kind} is {_said(name, bound)}"
    if name not in requests:
        yield f"{words}.  No request is specified"
    elif thousandths(requests[name]) < thousandths(bound):
        yield f"{words}, but request is {_said(name, requests[name])}"
    elif name in limits and thousandths(limits[name]) < thousandths(bound):
        yield f"{words}, but limit is {_said(name, limits[name])}"


def _above(kind: str, name: str, bound: kube.Quantity, requests: kube.Amounts, limits: kube.Amounts) -> Iterator[str]:
    words = f"maximum {name} usage per {kind} is {_said(name, bound)}"
    if name not in limits:
        yield f"{words}.  No limit is specified"
    elif thousandths(limits[name]) > thousandths(bound):
        yield f"{words}, but limit is {_said(name, limits[name])}"
    elif name in requests and thousandths(requests[name]) > thousandths(bound):
        yield f"{words}, but request is {_said(name, requests[name])}"


def _out_of_ratio(
    kind: str, name: str, bound: kube.Quantity, requests: kube.Amounts, limits: kube.Amounts
) -> Iterator[str]:
    words = f"{name} max limit to request ratio per {kind} is {text('cpu', thousandths(bound))}"
    request, limit = thousandths(requests.get(name, 0)), thousandths(limits.get(name, 0))
    if not request:
        yield f"{words}, but no request is specified or request is 0"
    elif not limit:
        yield f"{words}, but no limit is specified or limit is 0"
    elif limit / request * 1000 > thousandths(bound):  # Compute with floats, as Kubernetes does.
        yield f"{words}, but provided ratio is {limit / request:f}"
