"""The job that a rendered manifest describes: its name, and its pods by role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from distrain import kube
from distrain.amounts import Units, pod_request
from distrain.errors import HelmError, ValuesError

LAUNCHER = "launcher"
WORKER = "worker"
# The keys of an MPIJob's mpiReplicaSpecs, and distrain's names for them.
MPI_ROLES = {"Launcher": LAUNCHER, "Worker": WORKER}


@dataclass(frozen=True, slots=True)
class PodRole:
    """Pods of the job that are alike."""

    name: str
    replicas: int
    spec: kube.PodSpec
    request: Units


@dataclass(frozen=True, slots=True)
class Job:
    """An MPIJob and its two roles."""

    name: str
    api_version: str
    launcher: PodRole
    workers: PodRole

    @property
    def roles(self) -> tuple[PodRole, PodRole]:
        return self.launcher, self.workers


def from_manifest(manifest: str) -> Job:
    """Find the one MPIJob among rendered resources.

    Raises HelmError when the chart renders no such job, ValuesError for quantities that Kubernetes would refuse.
    """
    found = [resource for resource in _resources(manifest) if resource.get("kind") == "MPIJob"]
    if len(found) != 1:
        raise HelmError(f"--chart: the chart renders {len(found)} MPIJobs; distrain needs exactly one")
    job = msgspec.convert(found[0], kube.MPIJob)
    roles = {role.name: role for role in _roles(job)}
    if roles.keys() != set(MPI_ROLES.values()):
        raise HelmError(f"--chart: the MPIJob has roles {sorted(roles)}; distrain needs Launcher and Worker alone")
    return Job(job.metadata.name, found[0]["apiVersion"], roles[LAUNCHER], roles[WORKER])


def _resources(manifest: str) -> Iterator[dict[str, Any]]:
    for document in yaml.safe_load_all(manifest):
        if isinstance(document, dict):
            yield document


def _roles(job: kube.MPIJob) -> Iterator[PodRole]:
    for key, replica in (job.spec.replica_specs or {}).items():
        spec = (replica.template and replica.template.spec) or kube.PodSpec()
        replicas = 1 if replica.replicas is None else replica.replicas
        name = MPI_ROLES.get(key, key)
        yield PodRole(name, replicas, spec, _request(name, spec))


def _request(role: str, spec: kube.PodSpec) -> Units:
    try:
        return pod_request(kube.Pod(spec=spec))
    except ValueError as error:
        raise ValuesError(f"{role}: resources: {error}; write amounts such as 2, 500m or 4Gi") from error
