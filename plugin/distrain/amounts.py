"""What a pod asks of a node, counted as the API server and the scheduler count it.

Amounts are integers: thousandths for cpu, whole units for everything else. Each container's quantity is rounded up
alone, as the API server does when it stores a pod.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from distrain import kube

Units = dict[str, int]

# Resources that a pod may set for itself as a whole (spec.resources), in place of its containers' sums.
POD_LEVEL = ("cpu", "memory", "hugepages-")
# What a quantity may end in, as Kubernetes' resource.Quantity has it.
SCALES = {
    **{
        suffix: Decimal(10) ** (3 * power)
        for suffix, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
    },
    **{f"{suffix}i": Decimal(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", start=1)},
}
BINARY_SUFFIXES = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


@lru_cache(maxsize=4096)
def units(resource: str, quantity: kube.Quantity) -> int:
    """Return a quantity such as "1500m" or "2Gi" as a whole number.

    Raises ValueError for what is no quantity.
    """
    amount = _parsed(str(quantity))
    return math.ceil(amount * 1000 if resource == "cpu" else amount)


def _parsed(quantity: str) -> Decimal:
    suffix = next((quantity[-length:] for length in (2, 1) if quantity[-length:] in SCALES), "")
    try:
        amount = Decimal(quantity.removesuffix(suffix)) * SCALES.get(suffix, 1)
    except InvalidOperation as error:
        raise ValueError(f"{quantity} is no quantity") from error
    if not amount.is_finite():
        raise ValueError(f"{quantity} is no quantity")
    return amount


def text(resource: str, amount: int) -> str:
    """Return an amount as a person would write it in values, without loss."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    suffix, size = next((each for each in _suffixes(resource) if amount and amount % each[1] == 0), ("", 1))
    return f"{amount // size}{suffix}"


def rounded_down(resource: str, amount: int) -> str:
    """Return an amount in a short form that does not exceed it, to be typed into values."""
    suffix, size = next((each for each in _suffixes(resource) if amount >= each[1]), ("", 1))
    if not suffix:
        return text(resource, amount)
    return f"{math.floor(amount / size * 10) / 10:g}{suffix}"


def _suffixes(resource: str) -> tuple[tuple[str, int], ...]:
    in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return BINARY_SUFFIXES if in_bytes else ()


def all_units(quantities: kube.Amounts | None) -> Units:
    return {resource: units(resource, quantity) for resource, quantity in (quantities or {}).items()}


def pod_request(pod: kube.Pod) -> Units:
    """Return what the pod takes on a node, its slot among the node's pods (`pods`) included.

    A sidecar (an init container that restarts) stays and adds to the sum. Other init containers run one at a time
    beside the sidecars started before them, so the pod needs the larger of both.
    """
    spec, status = pod.spec, pod.status
    running = _by_name(status.container_statuses)
    total: Units = {}
    for container in spec.containers or ():
        _add(total, _container(container, running.get(container.name)))
    _raise_to(total, _init_peak(spec, _by_name(status.init_container_statuses), total))
    total.update(_pod_level(spec.resources))
    _add(total, all_units(spec.overhead))
    total["pods"] = 1
    return total


def _init_peak(spec: kube.PodSpec, running: Mapping[str, kube.ContainerStatus], total: Units) -> Units:
    """Return the most that any init container needs; sidecars are added to `total` on the way."""
    peak: Units = {}
    sidecars: Units = {}
    for container in spec.init_containers or ():
        need = _container(container, running.get(container.name))
        if container.restart_policy == "Always":
            _add(total, need)
            _add(sidecars, need)
            need = {}
        _add(need, sidecars)
        _raise_to(peak, need)
    return peak


def _container(container: kube.Container, status: kube.ContainerStatus | None) -> Units:
    need = _requested(container.resources)
    # A pod resized in place holds the larger of the old and the new figure until kubelet is done.
    # For most they are the same, which is told faster than what they amount to.
    own = container.resources or kube.Resources()
    if status is not None and status.allocated_resources != own.requests:
        _raise_to(need, all_units(status.allocated_resources))
    if status is not None and status.resources != own:
        _raise_to(need, _requested(status.resources))
    return need


def _requested(resources: kube.Resources | None) -> Units:
    """Return the requests; a limit without a request is one, as the API server fills it in."""
    if resources is None:
        return {}
    return {**all_units(resources.limits), **all_units(resources.requests)}


def _pod_level(resources: kube.Resources | None) -> Units:
    return {name: amount for name, amount in _requested(resources).items() if name.startswith(POD_LEVEL)}


def _by_name(statuses: list[kube.ContainerStatus] | None) -> dict[str, kube.ContainerStatus]:
    return {status.name: status for status in statuses or ()}


def _add(total: Units, more: Mapping[str, int]) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount


def _raise_to(total: Units, floor: Mapping[str, int]) -> None:
    for resource, amount in floor.items():
        total[resource] = max(total.get(resource, 0), amount)
