"""Validate the spec of a pod or pod template."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from distrain import kube
from distrain.admission.validation.containers import of_containers
from distrain.admission.validation.dns import of_dns
from distrain.admission.validation.field_errors import invalid, not_supported
from distrain.admission.validation.names import dns_label, of_each, of_labels
from distrain.admission.validation.placement.affinity import of_affinity
from distrain.admission.validation.placement.tolerations import of_toleration
from distrain.admission.validation.placement.topology_spread import of_constraints
from distrain.admission.validation.security import of_security
from distrain.admission.validation.storage.volumes import of_volumes
from distrain.workload.defaulting import stored

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"

LARGEST = 2**31 - 1


def of_spec(
    path: str, spec: kube.TemplateSpec, labels: Mapping[str, str], more_volumes: Collection[str] = ()
) -> Iterator[str]:
    """Validate a spec with the API server's defaults.

    `labels` are the labels of the pod, and `more_volumes` are the volumes that the pod's operator adds.
    """
    spec = stored(spec)
    volumes, found = of_volumes(f"{path}.volumes", spec.volumes or ())
    yield from found
    yield from of_containers(path, spec, {*volumes, *more_volumes})
    yield from of_security(path, spec)
    yield from of_dns(path, spec)
    yield from of_labels(f"{path}.nodeSelector", spec.node_selector)
    for index, toleration in enumerate(spec.tolerations or ()):
        yield from of_toleration(f"{path}.tolerations[{index}]", toleration)
    if spec.affinity:
        yield from of_affinity(f"{path}.affinity", spec.affinity, labels)
    if spec.hostname:
        yield from of_each(f"{path}.hostname", spec.hostname, dns_label)
    seconds = spec.active_deadline_seconds
    if seconds is not None and not 1 <= seconds <= LARGEST:
        rule = f"must be between 1 and {LARGEST}, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", seconds, rule)
    yield from of_constraints(f"{path}.topologySpreadConstraints", spec.topology_spread_constraints or (), labels)


def of_restart_policy(path: str, spec: kube.TemplateSpec) -> Iterator[str]:
    """Yield a message if Kubernetes has no such restartPolicy.

    If a pod sets no restartPolicy, the API server sets `Always`.
    """
    if spec.restart_policy and spec.restart_policy not in (ALWAYS, ON_FAILURE, NEVER):
        yield not_supported(f"{path}.restartPolicy", spec.restart_policy, (ALWAYS, ON_FAILURE, NEVER))
