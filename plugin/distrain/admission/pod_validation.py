"""Validate the resources of a job's pods, as the API server does before it stores a pod.

Kubernetes pkg/apis/core/validation/validation.go: validateResourceRequirements, ValidateResourceQuantityValue,
validateOverhead, validatePodResourceConsistency
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from distrain import kube
from distrain.admission.limit_ranger import defaults_of, filled
from distrain.admission.refusal import Refusal
from distrain.admission.validation.field_errors import NOT_NEGATIVE, forbidden, invalid, required
from distrain.admission.validation.resources import (
    is_extended,
    is_huge_pages,
    is_native,
    of_container_resource,
    of_huge_pages,
    of_pod_resource,
)
from distrain.kube.policy import LimitRange
from distrain.kube.quantities import Amounts, Quantity, Units, text, thousandths, whole
from distrain.pods.pod_requests import container_limits, container_requests, requested
from distrain.verdict import Verdict
from distrain.workload.manifest import REPLICAS, Job, PodRole
from distrain.workload.wording import Wording

# A function that checks a resource's name. Its arguments are the path of the name and the name; it yields error
# messages.
OfName = Callable[[str, str], Iterator[str]]


def refusals(job: Job, ranges: Sequence[LimitRange], say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each role whose pods are invalid, so that the API server of any cluster refuses them.

    The job already has the defaults of the LimitRanges.
    """
    for role in job.roles:
        kind, found = ("Pod", [*_of_number(role), *of_spec(role.spec)]) if role.replicas else _of_template(role)
        if found:
            words = f". Correct {found[0].partition(': ')[0]}."
            if name := _default_behind(found[0], role, ranges):
                words = f": LimitRange {name} sets a limit, and {found[0]}. Ask for less, or change the LimitRange."
            step = f"{say.place(role)}: no API server accepts such pods{words}"
            yield Refusal(Verdict.IMPOSSIBLE, f"{kind} is invalid: {', '.join(found)}", step)


def _default_behind(words: str, role: PodRole, ranges: Sequence[LimitRange]) -> str:
    """If a LimitRange's default limit causes the API server's message `words`, return its name, otherwise "".

    A default request never causes such a message: if a container has a limit but no request, its request is set to its
    limit.
    """
    if words in of_spec(role.template):
        return ""
    found = (each for each in ranges if words in of_spec(filled(role.template, defaults_of(each))))
    return next((each.metadata.name for each in found), "")


def _of_template(role: PodRole) -> tuple[str, list[str]]:
    """For a Job or StatefulSet without pods, return its kind, and the API server's messages about its pod template."""
    if role.owner is None or role.owner.kind in REPLICAS:
        return "", []
    return role.owner.kind, [f"spec.template.{words}" for words in of_spec(role.template)]


def _of_number(role: PodRole) -> Iterator[str]:
    # For a Job or StatefulSet, validation.refusals checks the number of pods.
    if role.replicas < 0 and role.owner and role.owner.kind in REPLICAS:
        yield f"the number of pods: Invalid value: {role.replicas}: {NOT_NEGATIVE}"


def of_spec(spec: kube.PodSpec) -> Iterator[str]:
    """Yield the API server's messages about the resources of the pod and of its containers."""
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers or ()):
            given = container.resources or kube.Resources()
            # The API server sets a missing request to the value of the limit.
            resources = kube.Resources(requested(given), given.limits)
            yield from _of_resources(f"spec.{field}[{index}].resources", resources, of_container_resource)
    if spec.resources:
        yield from _of_resources("spec.resources", spec.resources, of_pod_resource)
        yield from _of_pod(spec, spec.resources)
    yield from _of_resources("spec.overhead", kube.Resources(limits=spec.overhead), of_container_resource)


def _of_pod(spec: kube.PodSpec, resources: kube.Resources) -> Iterator[str]:
    """Yield the API server's messages about pod-level resources that the containers exceed."""
    requests, limits = resources.requests or {}, resources.limits or {}
    yield from _exceeded("requests", requests, container_requests(spec))
    huge = {name: amount for name, amount in container_limits(spec).items() if is_huge_pages(name)}
    yield from _exceeded("limits", limits, huge)
    for index, container in enumerate(spec.containers or ()):
        for resource, limit in ((container.resources and container.resources.limits) or {}).items():
            if resource in limits and thousandths(limit) > thousandths(limits[resource]):
                path = f"spec.resources.containers[{index}][{resource}].limits"
                yield invalid(path, str(limit), f"must be less than or equal to pod limits of {limits[resource]}")


def _exceeded(kind: str, given: Amounts, containers: Units) -> Iterator[str]:
    for resource, amount in containers.items():
        if resource in given and amount > thousandths(given[resource]):
            total = text(resource, whole(resource, amount))
            rule = f"must be greater than or equal to aggregate container {kind} of {total}"
            yield invalid(f"spec.resources.{kind}[{resource}]", str(given[resource]), rule)


def _of_resources(path: str, resources: kube.Resources, of_name: OfName) -> Iterator[str]:
    requests, limits = resources.requests or {}, resources.limits or {}
    yield from _of_quantities(f"{path}.limits", limits, of_name)
    yield from _of_quantities(f"{path}.requests", requests, of_name)
    for resource, request in requests.items():
        yield from _of_request(path, resource, request, limits)
    names = {*requests, *limits}
    if any(map(is_huge_pages, names)) and not {"cpu", "memory"} & names:
        yield forbidden(path, "HugePages require cpu or memory")


def _of_quantities(path: str, quantities: Amounts, of_name: OfName) -> Iterator[str]:
    for resource, quantity in quantities.items():
        where = f"{path}[{resource}]"
        yield from of_name(where, resource)
        if thousandths(quantity) < 0:
            yield invalid(where, str(quantity), NOT_NEGATIVE)
        if is_extended(resource) and thousandths(quantity) % 1000:
            yield invalid(where, str(quantity), "must be an integer")
        if is_huge_pages(resource):
            yield from of_huge_pages(where, resource, quantity)


def _of_request(path: str, resource: str, request: Quantity, limits: Amounts) -> Iterator[str]:
    is_exact = not is_native(resource) or is_huge_pages(resource)
    if resource not in limits:
        if is_exact:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    limit = limits[resource]
    more = thousandths(request) - thousandths(limit)
    if more > 0 or (more and is_exact):
        rule = "equal to" if is_exact else "less than or equal to"
        yield invalid(f"{path}.requests", str(request), f"must be {rule} {resource} limit of {limit}")
