"""Find out from a run's job and values which GPUs, labels and taint the nodes of its workers must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.errors import ValuesError
from distrain.instances.reserved import EFA
from distrain.instances.table import GKE
from distrain.kube.quantities import Units, text
from distrain.scheduler.taint_toleration import tolerates
from distrain.workload.gang_schedulers import BY_VALUE
from distrain.workload.kinds import KUBEFLOW, Install
from distrain.workload.manifest import Job, PodRole

# GKE gives its GPU nodes a taint with this value and effect. Its key is the resource name of the GPUs.
VALUE, EFFECT = "present", "NoSchedule"
RDMA, STORAGE = "rdma/", "ephemeral-storage"
GKE_INTERFACES = "networking.gke.io/interfaces"


class Needs(Struct, frozen=True):
    """A run's job, and the resource name of its GPUs."""

    job: Job
    gpu_resource: str
    gang: str = ""

    @property
    def worker(self) -> PodRole:
        return self.job.main

    @property
    def gpu_roles(self) -> list[PodRole]:
        """The roles whose pods have GPUs: the workers, and a Master that trains like them."""
        return [role for role in self.job.roles if role.request.get(self.gpu_resource)]

    @property
    def workers(self) -> int:
        return sum(role.replicas for role in self.gpu_roles)

    @property
    def gpus(self) -> int:
        return self.worker.request[self.gpu_resource]

    @property
    def selector(self) -> Mapping[str, str]:
        return self.worker.spec.node_selector or {}

    @property
    def asks_for_efa(self) -> bool:
        return bool(self.worker.request.get(EFA))

    @property
    def rdma(self) -> Units:
        """The devices of an InfiniBand network that a worker asks for."""
        return {name: amount for name, amount in self.worker.request.items() if name.startswith(RDMA)}

    @property
    def disk(self) -> str:
        """The ephemeral storage that a worker asks for; an empty text if it asks for none."""
        amount = self.worker.request.get(STORAGE)
        return text(STORAGE, amount) if amount else ""

    @property
    def has_gke_networks(self) -> bool:
        return GKE_INTERFACES in self.worker.annotations

    @property
    def taint(self) -> kube.Taint | None:
        """The taint of the GPU nodes, with a value that the workers tolerate; None if they tolerate no such taint."""
        own = [each.value or VALUE for each in self.worker.spec.tolerations or () if each.key == self.gpu_resource]
        taints = (kube.Taint(self.gpu_resource, value, EFFECT) for value in (VALUE, *own))
        return next((taint for taint in taints if tolerates(self.worker.spec, taint)), None)

    @property
    def operators(self) -> Sequence[Install]:
        """The operators that create the job's pods; a Plain job needs none."""
        found = (KUBEFLOW[each.kind].install for each in self.job.resources if each.kind in KUBEFLOW)
        return [install for install in dict.fromkeys(found) if install]


def refuse_without_gpus(values: Mapping[str, Any]) -> None:
    """Raise ValuesError if the values request no GPUs, or GPUs that no instance type of the table has."""
    workers = values.get("workers") or {}
    if values.get("gpus") == 0 or (values.get("gpus") is None and not workers.get("gpus")):
        path = "gpus" if values.get("gpus") == 0 else "workers.gpus"
        other = "create CPU nodes with your cloud's tool: `helm distrain check --offline --assume-nodes` tells how many"
        raise ValuesError(f"{path}: is 0, but `cluster` plans only GPU nodes; set gpus, or {other}")
    step = "set it to nvidia.com/gpu"
    if not (resource := workers.get("gpuResource")):
        raise ValuesError(f"workers.gpuResource: is empty, but `cluster` needs the resource name of the GPUs; {step}")
    if resource != "nvidia.com/gpu":
        raise ValuesError(f"workers.gpuResource: is {resource}, but the known types offer nvidia.com/gpu; {step}")


def needs_of(job: Job, values: Mapping[str, Any], provider: str) -> Needs:
    """Return what the job needs; raise ValuesError if its workers ask for no GPUs.

    GKE adds a toleration for the taint of its GPU nodes to every pod that requests GPUs.
    """
    gang = str((values.get("gang") or {}).get("scheduler") or "")
    resource = str(values["workers"]["gpuResource"])
    if not job.main.request.get(resource):
        raise ValuesError("workers.gpus: no worker requests a GPU; set gpus, or workers.gpus and workers.replicas")
    job = _tolerating(job, resource) if provider == GKE else job
    return Needs(job, resource, BY_VALUE[gang].name if gang in BY_VALUE else "")


def _tolerating(job: Job, resource: str) -> Job:
    """Return the job in which all pods with GPUs also tolerate the taint of the GPU nodes."""
    more = kube.Toleration(key=resource, operator="Exists", effect=EFFECT)

    def tolerating(role: PodRole) -> PodRole:
        if not role.request.get(resource):
            return role
        return replace(role, spec=replace(role.spec, tolerations=[*(role.spec.tolerations or ()), more]))

    return replace(job, roles=tuple(map(tolerating, job.roles)))
