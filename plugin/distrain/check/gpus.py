"""Count GPUs: how many a job needs, how many are free, and how many all nodes have."""

from __future__ import annotations

from msgspec import Struct

from distrain.check.cluster_state import ClusterState
from distrain.kube.gpus import GPU
from distrain.kube.quantities import allocatable_of
from distrain.workload.manifest import Job


class Gpus(Struct, frozen=True):
    """Three numbers of GPUs.

    The job needs `needed` GPUs; `free` GPUs are free on the nodes that admit the job's pods; all nodes together have
    `total` GPUs.
    """

    resource: str
    needed: int
    free: int
    total: int


def gpus_of(job: Job) -> str:
    """Guess the resource name of the job's GPUs from the requests of its pods."""
    asked = {resource for role in job.roles for resource in role.request if "/" in resource}
    return min((resource for resource in asked if GPU.search(resource)), default="nvidia.com/gpu")


def count_gpus(job: Job, state: ClusterState, resource: str) -> Gpus:
    asking = [role for role in job.roles if role.request.get(resource)] or [job.main]
    admitting = frozenset().union(*(state.role(role).nodes for role in asking))
    free = sum(max(0, node.free.get(resource, 0)) for node in state.free() if node.name in admitting)
    needed = sum(role.replicas * role.request.get(resource, 0) for role in asking)
    return Gpus(resource, needed, free, sum(allocatable_of(node, resource) for node in state.nodes))
