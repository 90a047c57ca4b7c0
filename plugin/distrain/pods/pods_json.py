"""Decode pods in JSON. Parts that only a few jobs need are decoded only when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Raw, Struct, field, json

from distrain import kube
from distrain.kube.decoders import convert, decoder
from distrain.pods.counted_pod import DAEMON_SET, INFEASIBLE, MIRROR, Kind, is_infeasible

# This value stands for a missing field.
NULL = Raw(b"null")
RESIZE = INFEASIBLE[0].encode()

T = TypeVar("T")


class _Annotations(Struct, gc=False):
    mirror: str | None = field(default=None, name=MIRROR)


class _Metadata(kube.Kube):
    name: str = ""
    namespace: str = ""
    labels: Raw = NULL
    annotations: _Annotations | None = None
    owner_references: list[kube.OwnerKind] | None = None
    deletion_timestamp: str | None = None

    @property
    def stays(self) -> bool:
        if self.annotations is not None and self.annotations.mirror is not None:
            return True
        # This is a loop, because `any` takes three times as long, and a large cluster has many pods.
        for owner in self.owner_references or ():  # noqa: SIM110
            if owner.kind == DAEMON_SET:
                return True
        return False


class _Container(kube.Kube):
    name: str = ""
    restart_policy: str | None = None
    resources: Raw = NULL
    ports: Raw = NULL


class _Affinity(kube.Kube):
    """Node affinity is left out, because it differs between the pods of a DaemonSet."""

    pod_anti_affinity: Raw = NULL


class _Spec(kube.Kube):
    node_name: str | None = None
    priority: int | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: Raw = NULL
    overhead: Raw = NULL
    affinity: _Affinity | None = None
    volumes: Raw = NULL


class _ContainerStatus(kube.Kube):
    name: str = ""
    resources: Raw = NULL
    allocated_resources: Raw = NULL


class _Status(kube.Kube):
    phase: str = ""
    nominated_node_name: str | None = None
    conditions: Raw = NULL
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None

    @property
    def is_infeasible(self) -> bool:
        # Look for the text first and decode only if it is there, because almost no pod is ever resized.
        return RESIZE in bytes(self.conditions) and is_infeasible(_decoded(self.conditions, list[kube.Condition]) or ())


class JsonPod(kube.Kube):
    """A CountedPod."""

    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def labels(self) -> dict[str, str]:
        return _decoded(self.metadata.labels, dict[str, str]) or {}

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def node_name(self) -> str:
        return self.spec.node_name or ""

    @property
    def volumes(self) -> Sequence[kube.Volume]:
        return _decoded(self.spec.volumes, list[kube.Volume]) or ()

    @property
    def kind(self) -> Kind:
        spec, status = self.spec, self.status
        # The arguments are in the order of Kind's fields, without names: passing names would take longer than passing
        # the values.
        return _kind(
            _encode(
                (
                    self.metadata.stays,
                    status.phase,
                    spec.priority or 0,
                    status.nominated_node_name,
                    spec.containers,
                    spec.init_containers,
                    spec.resources,
                    spec.overhead,
                    spec.affinity.pod_anti_affinity if spec.affinity else None,
                    status.container_statuses,
                    status.init_container_statuses,
                    status.is_infeasible,
                )
            )
        )


# The encoder copies parts of type Raw without decoding them.
_encode = json.Encoder().encode


# A large cluster has only a few thousand different kinds of pods, so cache the kinds.
@lru_cache(maxsize=2**16)
def _kind(text: bytes) -> Kind:
    return convert(dict(zip(Kind.__struct_encode_fields__, json.decode(text), strict=True)), Kind)


def _decoded(text: Raw, type: type[T]) -> T | None:
    """Decode a part of an object; return None if the object lacks this part."""
    return None if text is NULL else decoder(type | None).decode(text)  # type: ignore[arg-type]
