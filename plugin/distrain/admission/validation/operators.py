"""Validate a job of Kubeflow as its operator does, which creates no pods for a job that it finds invalid.

mpi-operator v0.8.0 pkg/apis/kubeflow/validation; training-operator v1.8.1 pkg/apis/kubeflow.org/v1/mpi_validation.go
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain.admission.validation.field_errors import invalid
from distrain.admission.validation.names import dns_1035_label
from distrain.workload.kinds import KUBEFLOW
from distrain.workload.manifest import PodRole

MPI_OPERATOR, TRAINING_OPERATOR = ("kubeflow.org/v2beta1", "MPIJob"), ("kubeflow.org/v1", "MPIJob")


def of_job(role: PodRole) -> Iterator[str]:
    """Validate the job that a role belongs to."""
    kind = role.owner and (role.owner.api_version, role.owner.kind)
    path, replicas = f"spec.{KUBEFLOW['MPIJob'].replicas}", role.workload.spec.mpi_replicas or {}
    if kind in (MPI_OPERATOR, TRAINING_OPERATOR):
        yield from _of_launcher(f"{path}[Launcher].replicas", replicas["Launcher"].replicas)
    if kind == MPI_OPERATOR:
        number = replicas["Worker"].replicas if "Worker" in replicas else 1
        yield from _of_workers(f"{path}[Worker].replicas", role.workload.metadata.name, number or 0)


def _of_launcher(path: str, number: int | None) -> Iterator[str]:
    if number not in (None, 1):
        yield invalid(path, number, "must be 1")


def _of_workers(path: str, name: str, number: int) -> Iterator[str]:
    last = f"{name}-worker-{max(number, 1) - 1}"
    if wrong := dns_1035_label(last):
        rule = f'will not able to create pod and service with invalid DNS label "{last}": {", ".join(wrong)}'
        yield invalid("metadata.name", name, rule)
    if number <= 0:
        yield invalid(path, number, "must be greater than or equal to 1")
