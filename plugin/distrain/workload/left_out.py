"""Name the objects of a manifest that no check judges: what may make pods, and what decides about pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from distrain.workload.documents import name_of

Item = dict[str, Any]

# Kinds that make no pods.
WITHOUT_PODS = frozenset(
    {
        *("ConfigMap", "Secret", "Service", "Endpoints", "EndpointSlice", "Ingress", "NetworkPolicy"),
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("PersistentVolume", "PersistentVolumeClaim", "RuntimeClass"),
        *("PodDisruptionBudget", "HorizontalPodAutoscaler"),
        *("PodGroup", "Queue", "LocalQueue", "ClusterQueue", "ResourceFlavor", "PodMonitor", "ServiceMonitor"),
    }
)
# Kinds that the check reads in the cluster, and not in the manifest.
POLICIES = frozenset({"Namespace", "ResourceQuota", "LimitRange", "PriorityClass", "StorageClass"})


def left_out(
    items: Iterable[Item], holds_pods: Callable[[Item], bool], is_hook: Callable[[Item], bool]
) -> Iterator[str]:
    """Yield the objects that are not judged. The functions tell whether an object's pods are judged, and hooks."""
    for item in items:
        name = name_of(item)
        if item.get("kind") in WITHOUT_PODS or holds_pods(item):
            continue
        if item.get("kind") in POLICIES:
            yield f"{name} of the manifest, as it is not in the cluster yet"
        elif is_hook(item):
            yield f"{name}, a Helm hook"
        else:
            yield f"{name} of {item.get('apiVersion') or 'no API version'}, and pods that it may make"
