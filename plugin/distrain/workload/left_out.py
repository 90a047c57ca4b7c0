"""Name the parts of a manifest that no check considers.

These are objects that may create pods or affect pods, and pod fields that Kubernetes does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from distrain.kube.resource import Resource
from distrain.workload.documents import Item, hook_of, name_of
from distrain.workload.policies import is_policy
from distrain.workload.unknown_fields import unknown_fields

# Objects of these kinds create no pods.
WITHOUT_PODS = frozenset(
    {
        *("ConfigMap", "Secret", "Service", "Endpoints", "EndpointSlice", "Ingress", "NetworkPolicy"),
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "RuntimeClass"),
        *("PodDisruptionBudget", "HorizontalPodAutoscaler"),
        *("PodGroup", "Queue", "LocalQueue", "ClusterQueue", "ResourceFlavor", "PodMonitor", "ServiceMonitor"),
    }
)

# The API groups that Kubernetes itself defines; the core group has no name.
GROUPS = frozenset(
    {
        *("", "apps", "autoscaling", "batch", "policy", "extensions"),
        *("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io"),
        *("authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io"),
        *("flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io"),
        *("rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"),
        "storagemigration.k8s.io",
    }
)


def is_custom(found: Resource) -> bool:
    """Tell whether the kind is unknown to Kubernetes and to distrain.

    The controller of an unknown kind may create any objects.
    """
    return found.api_version.rpartition("/")[0] not in GROUPS and found.kind not in WITHOUT_PODS


def left_out(items: Iterable[Item], holds_pods: Callable[[Item], bool]) -> Iterator[str]:
    """Yield the objects and the fields that no check considers.

    `holds_pods` tells whether an object has pods that the check considers.
    """
    for item in items:
        name = name_of(item)
        if holds_pods(item):
            yield from unknown_fields(name, item)
        elif item.get("kind") in WITHOUT_PODS or is_policy(item):
            continue
        elif hook_of(item) is not None:
            yield f"{name}, a Helm hook"
        else:
            yield f"{name} of {item.get('apiVersion') or 'no API version'}, and pods that it may make"
