"""What a check is about."""

from __future__ import annotations

from msgspec import Struct

from distrain.apiserver.cluster import Cluster
from distrain.check.gpus import gpus_of
from distrain.workload.manifest import Job


class Subject(Struct, frozen=True):
    """What is checked: a job in a namespace, against a cluster that is asked, or else one that a file holds.

    `gpu_resource` is None where no value names it, `in_cluster` where the cluster is the one around us.
    """

    job: Job
    namespace: str
    gpu_resource: str | None = None
    cluster: Cluster | None = None
    in_cluster: bool = False

    @property
    def gpus(self) -> str:
        return self.gpu_resource or gpus_of(self.job)
