"""Define what several kinds of Kubernetes objects share (metadata, conditions, resources), and define events.

The structs of this package have only the fields that the plugin reads. Every field has a default: the API server leaves
out empty fields, and in YAML that a person wrote a field may be null.
"""

from __future__ import annotations

from msgspec import Struct, field

from distrain.kube.quantities import Amounts


class Kube(Struct, rename="camel", omit_defaults=True, gc=False):
    """A Kubernetes object or a part of one."""


class ObjectReference(Kube):
    api_version: str = ""
    kind: str = ""
    uid: str = ""


class OwnerKind(Kube):
    kind: str = ""


class Metadata(Kube):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[ObjectReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class TemplateMetadata(Metadata):
    generate_name: str | None = None
    finalizers: list[str] | None = None


class Named(Kube):
    """An object of any kind, of which only the metadata is read."""

    metadata: Metadata = field(default_factory=Metadata)


class Condition(Kube):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class Event(Kube):
    reason: str | None = None
    message: str | None = None
    involved_object: ObjectReference = field(default_factory=ObjectReference)
    last_timestamp: str | None = None
    event_time: str | None = None


class Resources(Kube):
    requests: Amounts | None = None
    limits: Amounts | None = None
