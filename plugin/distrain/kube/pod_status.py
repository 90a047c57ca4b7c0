"""Define the status of a pod and its containers, and the pod as the API server returns it."""

from __future__ import annotations

from msgspec import field

from distrain.kube.objects import Condition, Kube, Metadata, Resources
from distrain.kube.pod_spec import PodSpec
from distrain.kube.quantities import Amounts

# A pod in one of these phases has ended.
ENDED = ("Succeeded", "Failed")


class Waiting(Kube):
    reason: str | None = None
    message: str | None = None


class Running(Kube):
    started_at: str | None = None


class Terminated(Kube):
    exit_code: int = 0
    finished_at: str | None = None
    reason: str | None = None
    message: str | None = None


class ContainerState(Kube):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Kube):
    name: str = ""
    image: str = ""
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    allocated_resources: Amounts | None = None
    resources: Resources | None = None


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
