"""Name the objects of a manifest that may make pods and that no check judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from distrain.workload.documents import name_of

Item = dict[str, Any]

# Kinds that make no pods.
WITHOUT_PODS = frozenset(
    {
        *("ConfigMap", "Secret", "Service", "Endpoints", "EndpointSlice", "Ingress", "NetworkPolicy", "Namespace"),
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "PriorityClass", "RuntimeClass"),
        *("ResourceQuota", "LimitRange", "PodDisruptionBudget", "HorizontalPodAutoscaler"),
        *("PodGroup", "Queue", "LocalQueue", "ClusterQueue", "ResourceFlavor", "PodMonitor", "ServiceMonitor"),
    }
)


def left_out(
    items: Iterable[Item], holds_pods: Callable[[Item], bool], is_hook: Callable[[Item], bool]
) -> Iterator[str]:
    """Yield the objects that are not judged. The functions tell whether an object's pods are judged, and hooks."""
    for item in items:
        name = name_of(item)
        if item.get("kind") in WITHOUT_PODS or holds_pods(item):
            continue
        if is_hook(item):
            yield f"{name}, a Helm hook"
        else:
            yield f"{name} of {item.get('apiVersion') or 'no API version'}, and pods that it may make"
