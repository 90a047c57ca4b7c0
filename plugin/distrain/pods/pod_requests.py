"""Sum up a pod's requests and limits by the rules of the API server and the scheduler.

Amounts are added in thousandths. The API server rounds each quantity up to thousandths when it stores the pod, and the
scheduler rounds the pod's sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from distrain import kube
from distrain.kube.quantities import Units, add, all_thousandths, text, whole
from distrain.pods.counted_pod import Kind, is_infeasible

Spec = kube.PodSpec | Kind
# For these resources, spec.resources of a pod can replace the sum of its containers' requests.
POD_LEVEL = ("cpu", "memory", "hugepages-")


def pod_request(spec: kube.PodSpec) -> Units:
    """Return the request of a pod that does not exist yet (cpu in millicores).

    The request includes 1 of the resource `pods`.
    """
    return _whole_request(_request(spec, {}, is_infeasible=False))


@lru_cache(maxsize=2**16)
def held(kind: Kind) -> Mapping[str, int]:
    """Return how much of its node an existing pod uses.

    While kubelet resizes the pod, the larger one of the old and the new amount counts.
    """
    return _whole_request(_request(kind, _running(kind), is_infeasible=kind.is_infeasible))


def held_by(pod: kube.Pod) -> Mapping[str, int]:
    """Return how much of its node an existing pod uses. If only the pod's Kind is known, call `held`."""
    spec, status = pod.spec, pod.status
    kind = Kind(
        containers=list(spec.containers or ()),
        init_containers=list(spec.init_containers or ()),
        resources=spec.resources,
        overhead=spec.overhead,
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        is_infeasible=is_infeasible(status.conditions or ()),
    )
    return held(kind)


def pod_limits(spec: kube.PodSpec) -> Units:
    """Return the limits of the pod, as quotas and LimitRanges count them. A container without a limit adds 0."""
    total = container_limits(spec)
    total.update(_of_the_pod(_limited(spec.resources)))
    for resource, amount in all_thousandths(spec.overhead).items():
        if total.get(resource):
            total[resource] += amount
    return {resource: whole(resource, amount) for resource, amount in total.items()}


def requested(resources: kube.Resources | None) -> kube.Amounts:
    """Return the requests. A limit without a request also counts as the request, as in the API server."""
    if resources is None:
        return {}
    return {**(resources.limits or {}), **(resources.requests or {})}


def container_requests(spec: kube.PodSpec) -> Units:
    """Return the sum of the containers' requests in thousandths, without the request of the pod itself."""
    return _with_init(spec, _asked)


def container_limits(spec: kube.PodSpec) -> Units:
    """Return the sum of the containers' limits in thousandths, without the limit of the pod itself."""
    return _with_init(spec, lambda container: _limited(container.resources))


def stored_resources(spec: kube.PodSpec) -> kube.Resources | None:
    """Return a pod's pod-level resources (`spec.resources`) as the API server stores them.

    The API server computes the missing ones from the containers.
    """
    # Kubernetes pkg/apis/core/v1/defaults.go: defaultHugePagePodLimits, defaultPodRequests
    given = spec.resources
    if given is None or not (given.requests or given.limits):
        return given
    huge = {name: limit for name, limit in container_limits(spec).items() if _is_huge(name)}
    requests = {**_quantities(_pod_level(spec, given)), **(given.requests or {})}
    return kube.Resources(requests, {**_quantities(huge), **(given.limits or {})})


def _quantities(amounts: Units) -> kube.Amounts:
    """Convert amounts, which are in thousandths, to quantities of Kubernetes such as 500m."""
    return {
        name: f"{amount}m" if amount % 1000 else text(name, whole(name, amount)) for name, amount in amounts.items()
    }


def _whole_request(total: Units) -> Units:
    return {**{resource: whole(resource, amount) for resource, amount in total.items()}, "pods": 1}


def _request(spec: Spec, running: Mapping[str, kube.ContainerStatus], *, is_infeasible: bool) -> Units:
    total = _with_init(spec, lambda container: _held(container, running.get(container.name), is_infeasible))
    if spec.resources is not None:
        total.update(_pod_level(spec, spec.resources))
    if spec.overhead:
        add(total, all_thousandths(spec.overhead))
    return total


def _with_init(spec: Spec, need_of: Callable[[kube.Container], Units]) -> Units:
    """Sum up the containers' needs.

    A sidecar (an init container with restartPolicy `Always`) keeps running and adds to the sum. Other init containers
    run one at a time, together with the sidecars that started before them. The pod needs the larger of the two sums.
    """
    total: Units = {}
    for container in spec.containers or ():
        add(total, need_of(container))
    if not spec.init_containers:
        return total
    peak: Units = {}
    sidecars: Units = {}
    for container in spec.init_containers:
        need = need_of(container)
        if container.restart_policy == "Always":
            add(total, need)
            add(sidecars, need)
            need = {}
        add(need, sidecars)
        _raise_to(peak, need)
    _raise_to(total, peak)
    return total


def _asked(container: kube.Container) -> Units:
    return all_thousandths(requested(container.resources))


def _limited(resources: kube.Resources | None) -> Units:
    return all_thousandths(resources.limits if resources else None)


def _held(container: kube.Container, status: kube.ContainerStatus | None, infeasible: bool) -> Units:
    """Return how much of its node a container uses. During a resize, the larger of the old and new amounts counts."""
    need = _asked(container)
    if status is None or status.resources is None:
        return need
    if infeasible:
        need = {}
    _raise_to(need, all_thousandths(status.resources.requests))
    _raise_to(need, all_thousandths(status.allocated_resources))
    return need


def _running(kind: Kind) -> dict[str, kube.ContainerStatus]:
    """Return the statuses that contain resources, by the container's name. Leave out init containers that end."""
    ending = {each.name for each in kind.init_containers or () if each.restart_policy != "Always"}
    statuses = (*(kind.container_statuses or ()), *(kind.init_container_statuses or ()))
    return {each.name: each for each in statuses if each.resources is not None and each.name not in ending}


def _pod_level(spec: Spec, resources: kube.Resources) -> Units:
    """Return the pod-level requests.

    If the pod has pod-level limits, or if its containers request huge pages, the API server adds the missing pod-level
    requests when it creates the pod. A missing request becomes the sum of the containers' requests or, if no container
    requests the resource, the pod-level limit. For huge pages, the pod-level limit is used even if containers request
    them.
    """
    asked = _of_the_pod(all_thousandths(resources.requests))
    limits = _of_the_pod(all_thousandths(resources.limits))
    sums = _of_the_pod(_with_init(spec, _asked))
    if not limits and not any(map(_is_huge, sums)):
        return asked
    return {**limits, **sums, **{name: limit for name, limit in limits.items() if _is_huge(name)}, **asked}


def _is_huge(resource: str) -> bool:
    return resource.startswith("hugepages-")


def _of_the_pod(amounts: Units) -> Units:
    return {name: amount for name, amount in amounts.items() if name.startswith(POD_LEVEL)}


def _raise_to(total: Units, floor: Mapping[str, int]) -> None:
    for resource, amount in floor.items():
        total[resource] = max(total.get(resource, 0), amount)
