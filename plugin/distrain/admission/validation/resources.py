"""Validate the names of resources, and the amounts of huge pages (also from pkg/apis/core/helper/helpers.go)."""

from __future__ import annotations

from collections.abc import Iterator

from distrain.admission.validation.field_errors import invalid, not_supported
from distrain.admission.validation.names import of_each, qualified_name
from distrain.kube.quantities import Quantity, QuantityError, thousandths

HUGE_PAGES, OF_QUOTA, HUGE_PAGES_OF_QUOTA = "hugepages-", "requests.", "requests.hugepages-"
OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
OF_PODS = ("cpu", "hugepages-", "memory")
# Resource names that may stand alone, without a domain such as `nvidia.com/`: the resources of pods, quotas and claims.
STANDARD = frozenset(
    (
        *OF_CONTAINERS,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in OF_CONTAINERS),
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "storage", "requests.storage", "services.nodeports", "services.loadbalancers"),
    )
)


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """Tell whether Kubernetes defines the resource: its name has no prefix, or a prefix that ends in kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Tell whether a device plugin or the user defines the resource, such as nvidia.com/gpu."""
    return not is_native(name) and not name.startswith(OF_QUOTA) and not qualified_name(f"{OF_QUOTA}{name}")


def of_container_resource(path: str, name: str) -> Iterator[str]:
    """Validate the name of a resource that a container requests or is limited to."""
    yield from _of_name(path, name)
    if "/" not in name:
        if name not in OF_CONTAINERS and not is_huge_pages(name):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def of_pod_resource(path: str, name: str) -> Iterator[str]:
    """Validate the name of a resource that the pod as a whole requests or is limited to."""
    wrong = list(_of_name(path, name))
    yield from wrong
    if not wrong and name not in OF_PODS and not is_huge_pages(name):
        yield not_supported(path, name, OF_PODS)


def of_huge_pages(path: str, name: str, quantity: Quantity) -> Iterator[str]:
    """Yield a message if an amount of huge pages is not a whole number of pages."""
    try:
        size = thousandths(name.removeprefix(HUGE_PAGES))
    except QuantityError:
        size = 0
    # The API server rounds the amount up to whole bytes.
    if size <= 0 or size % 1000 or -(-thousandths(quantity) // 1000) % (size // 1000):
        yield invalid(path, str(quantity), f"{quantity} is not positive integer multiple of {name}")


def _of_name(path: str, name: str) -> Iterator[str]:
    wrong = list(of_each(path, name, qualified_name))
    yield from wrong
    is_known = "/" in name or name in STANDARD or name.startswith((HUGE_PAGES, HUGE_PAGES_OF_QUOTA))
    if not wrong and not is_known:
        yield invalid(path, name, "must be a standard resource type or fully qualified")
