"""Define the spec of an existing pod, with only the fields that the scheduler uses, and the spec of a pod template."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field
from msgspec.structs import fields

from distrain.kube.objects import Kube, Resources, TemplateMetadata
from distrain.kube.placement import (
    Affinity,
    TemplateAffinity,
    TemplateSpreadConstraint,
    TemplateToleration,
    Toleration,
    TopologySpreadConstraint,
)
from distrain.kube.quantities import Amounts, Quantity
from distrain.kube.security_context import ContainerSecurityContext, PodSecurityContext
from distrain.kube.storage import ClaimTemplate


class Port(Kube):
    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None
    name: str | None = None
    container_port: int | None = None


class Container(Kube):
    name: str = ""
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[Port] | None = None


class Claim(Kube):
    claim_name: str = ""


class Ephemeral(Kube):
    """A claim that belongs to one pod; its name is POD-VOLUME."""

    volume_claim_template: ClaimTemplate | None = None


class Volume(Kube):
    name: str = ""
    persistent_volume_claim: Claim | None = None
    ephemeral: Ephemeral | None = None


class Gate(Kube):
    name: str = ""


class PodSpec(Kube):
    node_name: str | None = None
    scheduler_name: str | None = None
    host_network: bool | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: int | None = None
    containers: Sequence[Container] | None = None
    init_containers: Sequence[Container] | None = None
    resources: Resources | None = None
    overhead: Amounts | None = None
    node_selector: dict[str, str] | None = None
    tolerations: Sequence[Toleration] | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: Sequence[TopologySpreadConstraint] | None = None
    volumes: Sequence[Volume] | None = None


class Source(Kube):
    """A volume source, or another part of a pod. Only its type is read."""


class Reference(Kube):
    """A Secret or ConfigMap that a container or volume names.

    The pod waits for this object, unless the reference is optional.
    """

    name: str = ""
    optional: bool | None = None


class KeyReference(Reference):
    """A key of a Secret or ConfigMap."""

    key: str = ""


class FieldReference(Kube):
    """A reference to a field of the pod."""

    field_path: str = ""
    api_version: str | None = None


class ResourceReference(Kube):
    """A reference to a request or limit of a container."""

    resource: str = ""


class ValueFrom(Kube):
    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    file_key_ref: Source | None = None


class Variable(Kube):
    name: str = ""
    value_from: ValueFrom | None = None


class Variables(Kube):
    secret_ref: Reference | None = None
    config_map_ref: Reference | None = None


class Target(Kube):
    host: str | None = None
    port: int | str | None = None
    scheme: str | None = None


class Command(Kube):
    command: list[str] | None = None


class Handler(Kube):
    """The test that a probe makes, or a handler of the container's lifecycle."""

    http_get: Target | None = None
    tcp_socket: Target | None = None
    exec: Command | None = None
    grpc: Target | None = None


class Probe(Handler):
    initial_delay_seconds: int | None = None
    timeout_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None
    termination_grace_period_seconds: int | None = None


class Lifecycle(Kube):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


class VolumeMount(Kube):
    name: str = ""
    mount_path: str = ""


class TemplateContainer(Container):
    image_pull_policy: str | None = None
    env: list[Variable] | None = None
    env_from: list[Variables] | None = None
    security_context: ContainerSecurityContext | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    volume_mounts: list[VolumeMount] | None = None


class KeyToPath(Kube):
    """A key of a Secret or ConfigMap, and the path of the file that contains its value."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class SecretVolume(Kube):
    secret_name: str = ""
    optional: bool | None = None
    items: list[KeyToPath] | None = None
    default_mode: int | None = None


class ConfigMapVolume(Reference):
    items: list[KeyToPath] | None = None
    default_mode: int | None = None


class ProjectedReference(Reference):
    items: list[KeyToPath] | None = None


class Token(Kube):
    path: str = ""
    expiration_seconds: int | None = None


class Projection(Kube):
    """A source of a projected volume. A projected source has exactly one type."""

    secret: ProjectedReference | None = None
    config_map: ProjectedReference | None = None
    service_account_token: Token | None = None
    downward_api: Source | None = field(default=None, name="downwardAPI")
    cluster_trust_bundle: Source | None = None
    pod_certificate: Source | None = None

    @property
    def types(self) -> list[str]:
        return [each.encode_name for each in fields(self) if getattr(self, each.name) is not None]


class Projected(Kube):
    sources: list[Projection] | None = None
    default_mode: int | None = None


class EmptyDir(Source):
    size_limit: Quantity | None = None


class HostPath(Source):
    path: str = ""


class TemplateVolume(Volume):
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None
    projected: Projected | None = None
    csi: Source | None = None
    downward_api: Source | None = field(default=None, name="downwardAPI")
    empty_dir: EmptyDir | None = None
    image: Source | None = None
    host_path: HostPath | None = None
    gce_persistent_disk: Source | None = None
    aws_elastic_block_store: Source | None = None
    git_repo: Source | None = None
    nfs: Source | None = None
    iscsi: Source | None = None
    glusterfs: Source | None = None
    rbd: Source | None = None
    flex_volume: Source | None = None
    cinder: Source | None = None
    cephfs: Source | None = None
    flocker: Source | None = None
    fc: Source | None = None
    azure_file: Source | None = None
    vsphere_volume: Source | None = None
    quobyte: Source | None = None
    azure_disk: Source | None = None
    photon_persistent_disk: Source | None = None
    portworx_volume: Source | None = None
    scale_io: Source | None = field(default=None, name="scaleIO")
    storageos: Source | None = None

    @property
    def sources(self) -> list[str]:
        """Return the types of the volume's sources, such as emptyDir. A valid volume has exactly one source."""
        return [key for name, key in _SOURCES.items() if getattr(self, name) is not None]


_SOURCES = {each.name: each.encode_name for each in fields(TemplateVolume) if each.name != "name"}


class DNSOption(Kube):
    name: str = ""
    value: str | None = None


class DNSConfig(Kube):
    nameservers: list[str] | None = None
    searches: list[str] | None = None
    options: list[DNSOption] | None = None


class HostAlias(Kube):
    ip: str = ""
    hostnames: list[str] | None = None


class OperatingSystem(Kube):
    name: str | None = None


class TemplateSpec(PodSpec):
    """The spec of a pod template.

    It has more fields than the spec of an existing pod: also those that matter only before the pod exists.
    """

    containers: Sequence[TemplateContainer] | None = None
    init_containers: Sequence[TemplateContainer] | None = None
    volumes: Sequence[TemplateVolume] | None = None
    tolerations: Sequence[TemplateToleration] | None = None
    affinity: TemplateAffinity | None = None
    topology_spread_constraints: Sequence[TemplateSpreadConstraint] | None = None
    hostname: str | None = None
    restart_policy: str | None = None
    security_context: PodSecurityContext | None = None
    host_pid: bool | None = field(default=None, name="hostPID")
    host_ipc: bool | None = field(default=None, name="hostIPC")
    host_users: bool | None = None
    os: OperatingSystem | None = None
    scheduling_gates: list[Gate] | None = None
    service_account_name: str | None = None
    service_account: str | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    resource_claims: list[Gate] | None = None
    image_pull_secrets: list[Gate] | None = None
    dns_policy: str | None = None
    dns_config: DNSConfig | None = None
    host_aliases: list[HostAlias] | None = None


class PodTemplate(Kube):
    metadata: TemplateMetadata | None = None
    spec: TemplateSpec | None = None
