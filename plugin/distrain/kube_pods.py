"""As much of any pod of a cluster as counts for what it takes of a node.

A large cluster has more than a hundred thousand. So what nearly all of them have in common with others, or what hardly
any job asks about, stays text: it is decoded when it is needed, and nobody may keep it longer than the page that it
stands on.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Raw, Struct, field, json

from distrain.kube import Affinity, HostPort, Kube, OwnerKind

# The text of what an object does not have.
NULL = Raw(b"null")

T = TypeVar("T")


def decoded(text: Raw | bytes, type: type[T]) -> T | None:
    """Return what a part of an object that was left as text says; None where the object has no such part."""
    return None if text is NULL else json.decode(text, type=type | None)


class CountedAnnotations(Struct, gc=False):
    """Only a static pod has it: it stands for a file on its node."""

    mirror: str | None = field(default=None, name="kubernetes.io/config.mirror")


class CountedMetadata(Kube):
    name: str = ""
    namespace: str = ""
    labels_text: Raw = field(default=NULL, name="labels")
    annotations: CountedAnnotations | None = None
    owner_references: list[OwnerKind] | None = None
    deletion_timestamp: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        return decoded(self.labels_text, dict[str, str]) or {}

    @property
    def is_static(self) -> bool:
        return self.annotations is not None and self.annotations.mirror is not None


class CountedContainer(Kube):
    name: str = ""
    restart_policy: str | None = None
    resources: Raw = NULL
    ports_text: Raw = field(default=NULL, name="ports")

    @property
    def ports(self) -> list[HostPort] | None:
        return decoded(self.ports_text, list[HostPort])


class CountedSpec(Kube):
    node_name: str | None = None
    priority: int | None = None
    containers: list[CountedContainer] | None = None
    init_containers: list[CountedContainer] | None = None
    resources: Raw = NULL
    overhead: Raw = NULL
    affinity_text: Raw = field(default=NULL, name="affinity")
    volumes: Raw = NULL

    @property
    def affinity(self) -> Affinity | None:
        return decoded(self.affinity_text, Affinity)


class CountedContainerStatus(Kube):
    name: str = ""
    resources: Raw = NULL
    allocated_resources: Raw = NULL


class CountedStatus(Kube):
    phase: str = ""
    nominated_node_name: str | None = None
    conditions: Raw = NULL
    container_statuses: list[CountedContainerStatus] | None = None
    init_container_statuses: list[CountedContainerStatus] | None = None


class CountedPod(Kube):
    metadata: CountedMetadata = field(default_factory=CountedMetadata)
    spec: CountedSpec = field(default_factory=CountedSpec)
    status: CountedStatus = field(default_factory=CountedStatus)
