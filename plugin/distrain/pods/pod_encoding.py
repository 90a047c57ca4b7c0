"""Encode a CountedPod as a pod in JSON, with only the fields that are counted. `pods_json` decodes the same pod.

The encoded pod has a name only if the names of its claims contain the pod's name. The encoded pod uses the same
resources as the cluster's pod, but may differ from it otherwise: for example, a static pod gets a DaemonSet as its
owner. A CountedPod has no environment variables, commands, images or annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from msgspec import Raw, field, to_builtins
from msgspec.structs import replace

from distrain import kube
from distrain.pods.counted_pod import DAEMON_SET, INFEASIBLE, CountedPod, Kind

# The deletion time itself does not matter, only whether the pod has one.
DELETED = "1970-01-01T00:00:00Z"


class _Metadata(kube.Kube):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[kube.OwnerKind] | None = None
    deletion_timestamp: str | None = None


class _Spec(kube.Kube):
    """The spec of a pod. The parts that all pods of a kind share are already encoded."""

    node_name: str = ""
    volumes: list[kube.Volume] | None = None
    priority: int | None = None
    containers: Raw | None = None
    init_containers: Raw | None = None
    resources: Raw | None = None
    overhead: Raw | None = None
    affinity: kube.Affinity | None = None


class _Status(kube.Kube):
    phase: str = ""
    nominated_node_name: str | None = None
    conditions: list[kube.Condition] | None = None
    container_statuses: list[kube.ContainerStatus] | None = None
    init_container_statuses: list[kube.ContainerStatus] | None = None


class _Pod(kube.Kube, tag_field="kind", tag="Pod"):
    api_version: str
    metadata: _Metadata
    spec: _Spec
    status: Raw = field(default_factory=Raw)


_encode = msgspec.json.Encoder().encode


def encoded(pod: CountedPod | kube.Pod) -> bytes:
    """Return the pod's JSON. For a kube.Pod, also include the fields that quotas count."""
    if isinstance(pod, kube.Pod):
        return _encode({"apiVersion": "v1", "kind": "Pod", **to_builtins(_judged(pod))})
    kind = pod.kind
    volumes = [volume for each in pod.volumes if (volume := _counted(each)) != kube.Volume(each.name)]
    name = pod.name if any(each.ephemeral for each in volumes) else ""
    metadata = _Metadata(name, pod.namespace, pod.labels or None, _owners(kind), DELETED if pod.is_leaving else None)
    spec = replace(_spec(kind), node_name=pod.node_name, volumes=volumes or None)
    return _encode(_Pod("v1", metadata, spec, _status(kind)))


def _judged(pod: kube.Pod) -> kube.Pod:
    """Return the pod without annotations, and without its containers' images, commands and environment variables.

    Keep its name if its claims need the name.
    """
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    deleted = DELETED if metadata.deletion_timestamp else None
    name = metadata.name if any(each.ephemeral for each in spec.volumes or ()) else ""
    return kube.Pod(
        kube.Metadata(name, metadata.namespace, "", metadata.labels, None, metadata.owner_references, None, deleted),
        kube.PodSpec(
            node_name=spec.node_name,
            priority=spec.priority or 0,
            priority_class_name=spec.priority_class_name,
            active_deadline_seconds=spec.active_deadline_seconds,
            containers=[_bare(each) for each in spec.containers or ()],
            init_containers=[_bare(each) for each in spec.init_containers or ()],
            resources=spec.resources,
            overhead=spec.overhead,
            affinity=spec.affinity,
            volumes=[*map(_with_claim, spec.volumes or ())],
        ),
        kube.PodStatus(
            phase=status.phase,
            nominated_node_name=status.nominated_node_name,
            conditions=[each for each in status.conditions or () if each.type == INFEASIBLE[0]],
            container_statuses=[_amounts(each) for each in status.container_statuses or ()],
            init_container_statuses=[_amounts(each) for each in status.init_container_statuses or ()],
        ),
    )


def _bare(container: kube.Container) -> kube.Container:
    return replace(container, image=None, command=None, args=None)


def _amounts(status: kube.ContainerStatus) -> kube.ContainerStatus:
    allocated = status.allocated_resources
    return kube.ContainerStatus(name=status.name, resources=status.resources, allocated_resources=allocated)


def _counted(volume: kube.Volume) -> kube.Volume:
    """Return the volume without the template of its claim.

    If the source of a volume is not a claim, the volume has only a name.
    """
    return replace(volume, ephemeral=kube.Ephemeral() if volume.ephemeral else None)


def _with_claim(volume: kube.Volume) -> kube.Volume:
    """Return the volume with only the fields of its ephemeral claim that quotas count."""
    template = volume.ephemeral and volume.ephemeral.volume_claim_template
    if not template:
        return _counted(volume)
    of, attributes = template.spec, template.spec.volume_attributes_class_name
    spec = kube.ClaimSpec(
        storage_class_name=of.storage_class_name, resources=of.resources, volume_attributes_class_name=attributes
    )
    return replace(volume, ephemeral=kube.Ephemeral(volume_claim_template=kube.ClaimTemplate(spec=spec)))


def _owners(kind: Kind) -> list[kube.OwnerKind] | None:
    """Return a DaemonSet as the pod's owner if the pod belongs to a DaemonSet or is a static pod, otherwise None."""
    return [kube.OwnerKind(DAEMON_SET)] if kind.stays else None


@lru_cache(maxsize=2**16)
def _spec(kind: Kind) -> _Spec:
    return _Spec(
        priority=kind.priority,
        containers=_raw(_with_host_ports(kind.containers)),
        init_containers=_raw(_with_host_ports(kind.init_containers)),
        resources=_raw(kind.resources),
        overhead=_raw(kind.overhead),
        affinity=kube.Affinity(pod_anti_affinity=kind.anti_affinity) if kind.anti_affinity else None,
    )


@lru_cache(maxsize=2**16)
def _status(kind: Kind) -> Raw:
    resize = kube.Condition(INFEASIBLE[0], "True", INFEASIBLE[1])
    status = _Status(
        kind.phase,
        kind.nominated_node_name or None,
        [resize] if kind.is_infeasible else None,
        _resized(kind, kind.container_statuses, kind.containers),
        _resized(kind, kind.init_container_statuses, kind.init_containers),
    )
    return Raw(_encode(status))


def _with_host_ports(containers: Sequence[kube.Container] | None) -> list[kube.Container]:
    """Return the containers with their host ports, but without their other ports."""
    ports = [[port for port in each.ports or () if port.host_port] for each in containers or ()]
    return [replace(each, ports=of or None) for each, of in zip(containers or (), ports, strict=True)]


def _resized(
    kind: Kind, statuses: Sequence[kube.ContainerStatus] | None, containers: Sequence[kube.Container] | None
) -> list[kube.ContainerStatus] | None:
    """Return the statuses of the containers that are being resized, whose resources differ from the spec."""
    asked = {each.name: each.resources or kube.Resources() for each in containers or ()}
    found = [each for each in statuses or () if each.resources is not None]
    return [each for each in found if kind.is_infeasible or _differs(each, asked.get(each.name))] or None


def _differs(status: kube.ContainerStatus, asked: kube.Resources | None) -> bool:
    if asked is None or status.resources != asked:
        return True
    return bool(status.allocated_resources) and status.allocated_resources != asked.requests


def _raw(part: object) -> Raw | None:
    return Raw(_encode(part)) if part else None
