"""Define the objects that create pods: Kubeflow's jobs, Jobs, StatefulSets and Deployments."""

from __future__ import annotations

from msgspec import field

from distrain.kube.objects import Condition, Kube, TemplateMetadata
from distrain.kube.pod_spec import PodTemplate
from distrain.kube.selectors import LabelSelector
from distrain.kube.storage import ClaimTemplate


class ReplicaSpec(Kube):
    replicas: int | None = None
    template: PodTemplate | None = None


class RunPolicy(Kube):
    scheduling_policy: dict[str, object] | None = None
    suspend: bool | None = None
    managed_by: str | None = None


class Ordinals(Kube):
    """The number of a StatefulSet's first pod."""

    start: int | None = None


class WorkloadSpec(Kube):
    # The keys of these mappings are the roles, such as `Launcher` and `Worker`.
    mpi_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="mpiReplicaSpecs")
    pytorch_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="pytorchReplicaSpecs")
    mx_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="mxReplicaSpecs")
    tf_replicas: dict[str, ReplicaSpec] | None = field(default=None, name="tfReplicaSpecs")
    # The number of ranks per worker, in an MPIJob and in a PyTorchJob.
    slots_per_worker: int | None = None
    nproc_per_node: str | int | None = None
    run_policy: RunPolicy | None = None
    # A Job has this field in its spec. A Kubeflow job has the field in its run policy instead.
    suspend: bool | None = None
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    # The plugin checks whether these fields of a Job or StatefulSet are valid, but does not use them for anything else.
    completion_mode: str | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_management_policy: str | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    manual_selector: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplate | None = None
    volume_claim_templates: list[ClaimTemplate] | None = None
    ordinals: Ordinals | None = None


class WorkloadStatus(Kube):
    conditions: list[Condition] | None = None
    ready_replicas: int | None = None


class Workload(Kube):
    """An object that creates pods: a Kubeflow job, a Job, a StatefulSet or a Deployment."""

    metadata: TemplateMetadata = field(default_factory=TemplateMetadata)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
