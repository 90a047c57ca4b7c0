"""Tell the QoS class of the workers.

If a node has no free memory, kubelet uses this class to decide which pods to end first.

https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.kube.quantities import all_thousandths
from distrain.pods.pod_requests import requested

GUARANTEED = "Guaranteed: the cpu and memory limits of every container of a worker are its requests"


def qos_class(spec: kube.TemplateSpec) -> str | None:
    """Return the QoS class in words.

    Return None if the worker has no CPU limit: its class is then clearly Burstable.
    """
    main, *_ = spec.containers or ()
    if "cpu" not in _limits(main):
        return None
    found = next(_differences(spec), None)
    return f"Burstable, not Guaranteed: {found}" if found else GUARANTEED


def _differences(spec: kube.TemplateSpec) -> Iterator[str]:
    """Yield each reason why the pod is not in the class Guaranteed."""
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        limits, requests = _limits(container), all_thousandths(requested(container.resources))
        for resource in ("cpu", "memory"):
            if resource not in limits:
                yield f"container {container.name} has no {resource} limit"
            elif requests[resource] != limits[resource]:
                yield f"the {resource} limit of container {container.name} is not its request"


def _limits(container: kube.Container) -> dict[str, int]:
    return dict(all_thousandths(container.resources.limits if container.resources else None))
