"""Set the API server's defaults in a new pod, but only in fields that the scheduler or Pod Security admission reads.

If a container has a limit but no request, pods/pod_requests.py uses the limit as the request, as the API server does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from msgspec.structs import replace

from distrain import kube
from distrain.kube.pod_spec import EmptyDir
from distrain.pods.pod_requests import stored_resources

Spec = TypeVar("Spec", bound=kube.PodSpec)

# Kubernetes plugin/pkg/admission/defaulttolerationseconds/admission.go, Admit
LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
SECONDS = 300


def stored(spec: Spec) -> Spec:
    """Return the pod spec as the API server stores it."""
    tolerations, volumes = [*(spec.tolerations or ()), *_tolerations(spec)], [*map(_with_source, spec.volumes or ())]
    spec = replace(spec, tolerations=tolerations, volumes=volumes, resources=stored_resources(spec))
    return _with_host_ports(spec) if spec.host_network else spec


def _tolerations(spec: kube.PodSpec) -> Iterator[kube.TemplateToleration]:
    """Yield the tolerations for unreachable and not-ready nodes, unless the pod already tolerates these taints.

    With these tolerations, a pod stays for five minutes on a node that has become unreachable or not ready.
    """
    for taint in LOST:
        if not any(_speaks_of(taint, toleration) for toleration in spec.tolerations or ()):
            yield kube.TemplateToleration(taint, "Exists", effect="NoExecute", toleration_seconds=SECONDS)


def _speaks_of(taint: str, toleration: kube.Toleration) -> bool:
    return toleration.key in (None, "", taint) and toleration.effect in (None, "", "NoExecute")


def _with_source(volume: kube.Volume) -> kube.Volume:
    # Kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Volume
    is_empty = isinstance(volume, kube.TemplateVolume) and not volume.sources
    return replace(volume, empty_dir=EmptyDir()) if is_empty else volume


def _with_host_ports(spec: Spec) -> Spec:
    # Kubernetes pkg/apis/core/v1/defaults.go, defaultHostNetworkPorts
    containers, init_containers = (
        [_with_ports_of_host(container) for container in of_kind or ()]
        for of_kind in (spec.containers, spec.init_containers)
    )
    return replace(spec, containers=containers, init_containers=init_containers)


def _with_ports_of_host(container: kube.Container) -> kube.Container:
    ports = [replace(port, host_port=port.host_port or port.container_port) for port in container.ports or ()]
    return replace(container, ports=ports)
