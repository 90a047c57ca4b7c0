"""Name the objects of a manifest that no check judges: what may make pods, and what decides about pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from distrain.workload.documents import Item, hook_of, name_of
from distrain.workload.policies import is_policy

# Kinds that make no pods.
WITHOUT_PODS = frozenset(
    {
        *("ConfigMap", "Secret", "Service", "Endpoints", "EndpointSlice", "Ingress", "NetworkPolicy"),
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "RuntimeClass"),
        *("PodDisruptionBudget", "HorizontalPodAutoscaler"),
        *("PodGroup", "Queue", "LocalQueue", "ClusterQueue", "ResourceFlavor", "PodMonitor", "ServiceMonitor"),
    }
)


def left_out(items: Iterable[Item], holds_pods: Callable[[Item], bool]) -> Iterator[str]:
    """Yield the objects that are not judged. `holds_pods` tells whether an object's pods are judged."""
    for item in items:
        name = name_of(item)
        if item.get("kind") in WITHOUT_PODS or holds_pods(item) or is_policy(item):
            continue
        if hook_of(item) is not None:
            yield f"{name}, a Helm hook"
        else:
            yield f"{name} of {item.get('apiVersion') or 'no API version'}, and pods that it may make"
