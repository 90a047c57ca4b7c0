"""Decode pods in protobuf. Protobuf is shorter than JSON, and unneeded parts can be skipped much faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from google.protobuf.message import DecodeError, Message
from msgspec.structs import replace

from distrain import kube
from distrain.kube.decoders import convert
from distrain.pods.counted_pod import BEGINNING, DAEMON_SET, MAGIC, MIRROR, Kind, is_infeasible
from distrain.pods.protobuf import ALL, FEW

# Field numbers in an Unknown and in a list, in the order in which the API server writes the fields.
TYPE_META, RAW, METADATA = 1, 2, 1


class ProtobufPod:
    """A CountedPod."""

    __slots__ = ("_labels", "_volumes", "is_leaving", "is_resized", "kind", "name", "namespace", "node_name")

    def __init__(self, pod: Any) -> None:
        """`pod` is a message of FEW, a schema with only the needed fields.

        Clear the fields in which pods of the same kind differ, so that the rest has the same bytes in all of these
        pods.
        """
        metadata, spec = pod.metadata, pod.spec
        self.name: str = metadata.name
        self.namespace: str = metadata.namespace
        self.node_name: str = spec.nodeName
        self.is_leaving: bool = metadata.HasField("deletionTimestamp")
        self._labels, self._volumes = metadata.labels, spec.volumes
        metadata.ClearField("name")
        metadata.ClearField("namespace")
        metadata.ClearField("deletionTimestamp")
        metadata.ClearField("labels")
        spec.ClearField("nodeName")
        spec.ClearField("volumes")
        self.kind, self.is_resized = _kind(pod.SerializeToString())

    @property
    def labels(self) -> dict[str, str]:
        entries = map(ALL["StringEntry"].FromString, self._labels)
        return {entry.key: entry.value for entry in entries}

    @property
    def volumes(self) -> Sequence[kube.Volume]:
        # Protobuf has the volume's source in a message of its own. JSON and `kube.Volume` have the volume's name and
        # the fields of the source in the same object.
        found = map(ALL["Volume"].FromString, self._volumes)
        return [convert({**_plain(each.volumeSource), "name": each.name}, kube.Volume) for each in found]


def pods(page: memoryview) -> Iterator[ProtobufPod]:
    """Yield the pods of a page; raise msgspec.DecodeError if it is not a list of pods."""
    text = bytes(page[len(MAGIC) :])
    found = _read("Unknown", text).raw
    found.DiscardUnknownFields()
    return _pods(found, text)


def _pods(found: Any, text: bytes) -> Iterator[ProtobufPod]:
    whole = None
    for number, message in enumerate(found.items):
        pod = ProtobufPod(message)
        if pod.is_resized:
            whole = whole or ALL["Unknown"].FromString(text).raw
            if is_infeasible(whole.items[number].status.conditions):
                pod.kind = _infeasible(pod.kind)
        yield pod


def next_token(page: memoryview) -> str | None:
    """Return the next page's token from the beginning of a page; raise msgspec.DecodeError if it is not a list."""
    start = bytes(page[:BEGINNING])
    _, end = _field(start, len(MAGIC), TYPE_META)
    begin, _ = _field(start, end, RAW)
    begin, end = _field(start, begin, METADATA)
    return getattr(_read("ListMeta", start[begin:end]), "continue") or None


def _read(name: str, text: bytes) -> Any:
    try:
        return FEW[name].FromString(text)
    except DecodeError as error:
        raise msgspec.DecodeError(str(error)) from error


def _field(message: bytes, position: int, number: int) -> tuple[int, int]:
    """Return the start and end of the body of the field at this position."""
    if message[position : position + 1] != bytes([number << 3 | 2]):
        raise msgspec.DecodeError(f"field {number} is missing")
    length = shift = 0
    for body, byte in enumerate(message[position + 1 : position + 6], start=position + 2):
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return body, body + length
    raise msgspec.DecodeError(f"field {number} has no end")


@lru_cache(maxsize=2**16)
def _kind(text: bytes) -> tuple[Kind, bool]:
    """Decode a pod's `Kind`. Also return whether a container's actual resources differ from those in its spec."""
    pod = FEW["Pod"].FromString(text)
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    is_static = any(annotation.key == MIRROR for annotation in metadata.annotations)
    kind = Kind(
        stays=is_static or any(owner.kind == DAEMON_SET for owner in metadata.ownerReferences),
        phase=status.phase,
        priority=spec.priority,
        nominated_node_name=status.nominatedNodeName,
        containers=list(map(_container, spec.containers)),
        init_containers=list(map(_container, spec.initContainers)),
        resources=_resources(spec.resources) if spec.HasField("resources") else None,
        overhead=_amounts(*spec.overhead),
        anti_affinity=_anti_affinity(spec.affinity),
        container_statuses=list(map(_container_status, status.containerStatuses)),
        init_container_statuses=list(map(_container_status, status.initContainerStatuses)),
    )
    return kind, _is_resized(kind)


@lru_cache(maxsize=2**16)
def _infeasible(kind: Kind) -> Kind:
    return replace(kind, is_infeasible=True)


def _is_resized(kind: Kind) -> bool:
    containers = [*(kind.containers or ()), *(kind.init_containers or ())]
    asked = {container.name: container.resources or kube.Resources() for container in containers}
    for status in (*(kind.container_statuses or ()), *(kind.init_container_statuses or ())):
        resources = asked.get(status.name, kube.Resources())
        if status.resources not in (None, resources) or status.allocated_resources not in ({}, resources.requests):
            return True
    return False


def _container(message: Any) -> kube.Container:
    return kube.Container(
        name=message.name,
        restart_policy=message.restartPolicy,
        resources=_resources(message.resources),
        ports=list(map(_port, message.ports)),
    )


def _container_status(message: Any) -> kube.ContainerStatus:
    return kube.ContainerStatus(
        name=message.name,
        allocated_resources=_amounts(*message.allocatedResources),
        resources=_resources(message.resources) if message.HasField("resources") else None,
    )


# Containers of many pods have equal requests, so the results are cached.
@lru_cache(maxsize=2**12)
def _resources(text: bytes) -> kube.Resources:
    found = ALL["ResourceRequirements"].FromString(text)
    requests, limits = ({each.key: each.value.string for each in entries} for entries in (found.requests, found.limits))
    return kube.Resources(requests, limits)


@lru_cache(maxsize=2**12)
def _amounts(*entries: bytes) -> kube.Amounts:
    found = map(ALL["QuantityEntry"].FromString, entries)
    return {entry.key: entry.value.string for entry in found}


@lru_cache(maxsize=2**12)
def _port(text: bytes) -> kube.Port:
    port = ALL["ContainerPort"].FromString(text)
    return kube.Port(host_port=port.hostPort, host_ip=port.hostIP, protocol=port.protocol)


def _anti_affinity(affinity: Any) -> kube.PodAffinity | None:
    if not affinity.HasField("podAntiAffinity"):
        return None
    return convert(_plain(ALL["PodAntiAffinity"].FromString(affinity.podAntiAffinity)), kube.PodAffinity)


def _plain(value: Any) -> Any:
    """Convert a protobuf field to the form that the field has in JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        return {field.name: _plain(child) for field, child in value.ListFields()}
    if isinstance(value[0], Message) and value[0].DESCRIPTOR.name == "StringEntry":
        return {entry.key: entry.value for entry in value}
    return [_plain(each) for each in value]
