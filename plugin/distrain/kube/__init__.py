"""The parts of Kubernetes' objects that distrain reads, as typed structs.

Only the fields that something here uses. Every field has a default, since the API server leaves out what is empty
and a person's YAML may hold null.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

# YAML written by hand holds bare numbers where the API server writes strings.
Quantity = str | int | float
Amounts = dict[str, Quantity]


class Kube(Struct, rename="camel", gc=False):
    """A Kubernetes object or a part of one."""


class ObjectReference(Kube):
    kind: str = ""
    name: str = ""
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


class Resources(Kube):
    requests: Amounts | None = None
    limits: Amounts | None = None


class HostPort(Kube):
    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class Port(HostPort):
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


class Toleration(Kube):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(Kube):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Kube):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class NodeTerm(Kube):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Kube):
    node_selector_terms: list[NodeTerm] | None = None


class NodeAffinity(Kube):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodTerm(Kube):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class PodAffinity(Kube):
    required: list[PodTerm] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Kube):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(Kube):
    topology_key: str = ""
    when_unsatisfiable: str = ""
    max_skew: int = 1
    min_domains: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class Claim(Kube):
    claim_name: str = ""


class Volume(Kube):
    name: str = ""
    persistent_volume_claim: Claim | None = None


class Gate(Kube):
    name: str = ""


class PodSpec(Kube):
    node_name: str | None = None
    scheduler_name: str | None = None
    host_network: bool | None = None
    priority: int | None = None
    containers: Sequence[Container] | None = None
    init_containers: Sequence[Container] | None = None
    resources: Resources | None = None
    overhead: Amounts | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: list[Spread] | None = None
    volumes: Sequence[Volume] | None = None


class Reference(Kube):
    """Another object that a container or a volume names; the pod starts without it only where it is optional."""

    name: str = ""
    optional: bool | None = None


class ValueFrom(Kube):
    secret_key_ref: Reference | None = None
    config_map_key_ref: Reference | None = None


class Variable(Kube):
    value_from: ValueFrom | None = None


class Variables(Kube):
    secret_ref: Reference | None = None
    config_map_ref: Reference | None = None


class TemplateContainer(Container):
    env: list[Variable] | None = None
    env_from: list[Variables] | None = None


class SecretVolume(Kube):
    secret_name: str = ""
    optional: bool | None = None


class Projection(Kube):
    secret: Reference | None = None
    config_map: Reference | None = None


class Projected(Kube):
    sources: list[Projection] | None = None


class ClaimSpec(Kube):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: Resources | None = None
    selector: LabelSelector | None = None
    volume_mode: str | None = None


class ClaimTemplate(Kube):
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class Ephemeral(Kube):
    volume_claim_template: ClaimTemplate | None = None


class TemplateVolume(Volume):
    secret: SecretVolume | None = None
    config_map: Reference | None = None
    projected: Projected | None = None
    ephemeral: Ephemeral | None = None


class TemplateSpec(PodSpec):
    """What is to be a pod: beside what the scheduler counts of every pod, what else has to be there for it."""

    containers: Sequence[TemplateContainer] | None = None
    init_containers: Sequence[TemplateContainer] | None = None
    volumes: Sequence[TemplateVolume] | None = None
    scheduling_gates: list[Gate] | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    active_deadline_seconds: int | None = None
    resource_claims: list[Gate] | None = None


class Waiting(Kube):
    reason: str | None = None
    message: str | None = None


class Running(Kube):
    started_at: str | None = None


class Terminated(Kube):
    exit_code: int = 0
    reason: str | None = None
    message: str | None = None


class ContainerState(Kube):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Kube):
    name: str = ""
    image: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    allocated_resources: Amounts | None = None
    resources: Resources | None = None


class Condition(Kube):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(Kube):
    phase: str = ""
    reason: str | None = None
    message: str | None = None
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class Taint(Kube):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Kube):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Kube):
    allocatable: Amounts | None = None
    capacity: Amounts | None = None


class Node(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class PodTemplate(Kube):
    metadata: Metadata | None = None
    spec: TemplateSpec | None = None


class ReplicaSpec(Kube):
    replicas: int | None = None
    template: PodTemplate | None = None


class RunPolicy(Kube):
    scheduling_policy: dict[str, object] | None = None


class WorkloadSpec(Kube):
    # The keys of these are the roles, such as `Launcher` and `Worker`.
    mpi_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="mpiReplicaSpecs")
    pytorch_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="pytorchReplicaSpecs")
    mx_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="mxReplicaSpecs")
    tf_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="tfReplicaSpecs")
    # The ranks of each worker, as an MPIJob and a PyTorchJob say it.
    slots_per_worker: int | None = None
    nproc_per_node: str | int | None = None
    run_policy: RunPolicy | None = None
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    template: PodTemplate | None = None


class WorkloadStatus(Kube):
    conditions: list[Condition] | None = None
    ready_replicas: int | None = None


class Workload(Kube):
    """Anything that makes pods: a Kubeflow job, a Job, a StatefulSet, a Deployment."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class Event(Kube):
    type: str = ""
    reason: str | None = None
    message: str | None = None
    involved_object: ObjectReference = field(default_factory=ObjectReference)


class Named(Kube):
    """Any object of which only the name matters."""

    metadata: Metadata = field(default_factory=Metadata)


class LabelValues(Kube):
    key: str = ""
    values: list[str] | None = None


class Topology(Kube):
    match_label_expressions: list[LabelValues] | None = None


class StorageClass(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[Topology] | None = None
