"""Validate the resources of a job's pods, as the API server does before it stores a pod.

Kubernetes pkg/apis/core/validation/validation.go: validateResourceRequirements, ValidateResourceQuantityValue,
validatePodResourceConsistency
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distrain import kube
from distrain.admission.limit_ranger import defaults_of, filled
from distrain.admission.refusal import Refusal
from distrain.admission.validation.field_errors import NOT_NEGATIVE
from distrain.kube.policy import LimitRange
from distrain.kube.quantities import Amounts, Quantity, Units, text, thousandths, whole
from distrain.pods.pod_requests import container_limits, container_requests
from distrain.verdict import Verdict
from distrain.workload.manifest import REPLICAS, Job, PodRole
from distrain.workload.wording import Wording

HUGE_PAGES = "hugepages-"


def refusals(job: Job, ranges: Sequence[LimitRange], say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each role whose pods no API server accepts; the job already has the ranges' defaults."""
    for role in job.roles:
        found = [*_of_number(role), *of_spec(role.spec)] if role.replicas else []
        if found:
            step = f"Correct {found[0].partition(': ')[0]}."
            if name := _default_behind(found[0], role, ranges):
                step = f"LimitRange {name} sets the limit. Set another limit in the pods, or change the LimitRange."
            words = f"{say.place(role)}: no API server accepts such pods{':' if name else '.'} {step}"
            yield Refusal(Verdict.IMPOSSIBLE, f"Pod is invalid: {', '.join(found)}", words)


def _default_behind(words: str, role: PodRole, ranges: Sequence[LimitRange]) -> str:
    """Name the LimitRange whose default limit the API server refuses in these words; empty if no default is to blame.

    A default request is never refused: a container with a limit has that limit as its request.
    """
    if words in of_spec(role.template):
        return ""
    found = (each for each in ranges if words in of_spec(filled(role.template, defaults_of(each))))
    return next((each.metadata.name for each in found), "")


def _of_number(role: PodRole) -> Iterator[str]:
    # validation.refusals judges the number in a Job or StatefulSet.
    if role.replicas < 0 and role.owner and role.owner.kind in REPLICAS:
        yield f"the number of pods: Invalid value: {role.replicas}: {NOT_NEGATIVE}"


def of_spec(spec: kube.PodSpec) -> Iterator[str]:
    """Yield what the API server says against the resources of the pod and of its containers."""
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers or ()):
            yield from _of_resources(f"spec.{field}[{index}].resources", container.resources or kube.Resources())
    if spec.resources:
        yield from _of_resources("spec.resources", spec.resources)
        yield from _of_pod(spec, spec.resources)


def _of_pod(spec: kube.PodSpec, resources: kube.Resources) -> Iterator[str]:
    """Yield what the API server says against resources of the pod that its containers exceed."""
    requests, limits = resources.requests or {}, resources.limits or {}
    yield from _exceeded("requests", requests, container_requests(spec))
    huge = {name: amount for name, amount in container_limits(spec).items() if _is_huge_pages(name)}
    yield from _exceeded("limits", limits, huge)
    for index, container in enumerate(spec.containers or ()):
        for resource, limit in ((container.resources and container.resources.limits) or {}).items():
            if resource in limits and thousandths(limit) > thousandths(limits[resource]):
                invalid = f'spec.resources.containers[{index}][{resource}].limits: Invalid value: "{limit}"'
                yield f"{invalid}: must be less than or equal to pod limits of {limits[resource]}"


def _exceeded(kind: str, given: Amounts, containers: Units) -> Iterator[str]:
    for resource, amount in containers.items():
        if resource in given and amount > thousandths(given[resource]):
            invalid = f'spec.resources.{kind}[{resource}]: Invalid value: "{given[resource]}"'
            total = text(resource, whole(resource, amount))
            yield f"{invalid}: must be greater than or equal to aggregate container {kind} of {total}"


def _of_resources(path: str, resources: kube.Resources) -> Iterator[str]:
    limits = resources.limits or {}
    # The API server sets a request that is missing to the limit.
    requests = {**limits, **(resources.requests or {})}
    yield from _of_quantities(f"{path}.limits", limits)
    yield from _of_quantities(f"{path}.requests", requests)
    for resource, request in requests.items():
        yield from _of_request(path, resource, request, limits)
    if any(map(_is_huge_pages, requests)) and not {"cpu", "memory"} & {*requests}:
        yield f"{path}: Forbidden: HugePages require cpu or memory"


def _of_quantities(path: str, quantities: Amounts) -> Iterator[str]:
    for resource, quantity in quantities.items():
        invalid = f'{path}[{resource}]: Invalid value: "{quantity}"'
        if thousandths(quantity) < 0:
            yield f"{invalid}: {NOT_NEGATIVE}"
        if _is_extended(resource) and thousandths(quantity) % 1000:
            yield f"{invalid}: must be an integer"


def _of_request(path: str, resource: str, request: Quantity, limits: Amounts) -> Iterator[str]:
    is_exact = _is_extended(resource) or _is_huge_pages(resource)
    if resource not in limits:
        if is_exact:
            yield f"{path}.limits: Required value: Limit must be set for non overcommitable resources"
        return
    limit = limits[resource]
    more = thousandths(request) - thousandths(limit)
    if more > 0 or (more and is_exact):
        rule = "equal to" if is_exact else "less than or equal to"
        yield f'{path}.requests: Invalid value: "{request}": must be {rule} {resource} limit of {limit}'


def _is_extended(resource: str) -> bool:
    """Tell whether a resource is neither Kubernetes' own nor has its prefix, such as nvidia.com/gpu."""
    return "/" in resource and "kubernetes.io/" not in resource


def _is_huge_pages(resource: str) -> bool:
    return resource.startswith(HUGE_PAGES)
