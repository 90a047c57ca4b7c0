"""Validate a Kubeflow job as its operator does. The operator creates no pods for a job that it finds invalid.

mpi-operator v0.8.0 pkg/apis/kubeflow/validation; training-operator v1.8.1 pkg/webhooks, and
pkg/apis/kubeflow.org/v1/mpi_validation.go, mxnet_validation.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from distrain import kube
from distrain.admission.validation.field_errors import forbidden, invalid, not_supported, required
from distrain.admission.validation.names import dns_1035_label
from distrain.workload.kinds import KUBEFLOW, VERSIONS, Version
from distrain.workload.manifest import REPLICAS, PodRole

PATH = "spec.mpiReplicaSpecs"


def of_job(role: PodRole) -> Iterator[str]:
    """Validate the job that a role belongs to."""
    owner, job = role.owner, role.workload
    version = VERSIONS.get((owner.api_version, owner.kind)) if owner else None
    # If an operator makes a StatefulSet of workers, it does not validate its jobs.
    if version is None or not version.operators or "worker" in version.makes:
        return
    if version.container:
        yield from _of_training_operator(version, job)
        return
    install = KUBEFLOW[version.kind].install
    yield from _of_launcher(job.spec.mpi_replicas or {})
    if install and version.operators[0] == install.operator:
        yield from _of_workers(job.metadata.name, job.spec.mpi_replicas or {})


def _of_launcher(replicas: Mapping[str, kube.ReplicaSpec]) -> Iterator[str]:
    number = replicas["Launcher"].replicas
    if number not in (None, 1):
        yield invalid(f"{PATH}[Launcher].replicas", number, "must be 1")


def _of_workers(name: str, replicas: Mapping[str, kube.ReplicaSpec]) -> Iterator[str]:
    number = (replicas["Worker"].replicas or 0) if "Worker" in replicas else 1
    last = f"{name}-worker-{max(number, 1) - 1}"
    if wrong := dns_1035_label(last):
        rule = f'will not able to create pod and service with invalid DNS label "{last}": {", ".join(wrong)}'
        yield invalid("metadata.name", name, rule)
    if number <= 0:
        yield invalid(f"{PATH}[Worker].replicas", number, "must be greater than or equal to 1")


def _of_training_operator(version: Version, job: kube.Workload) -> Iterator[str]:
    """Validate a job of a kind that only the training-operator runs."""
    kind, container = version.kind, version.container
    if wrong := dns_1035_label(job.metadata.name):
        yield invalid("metadata.name", job.metadata.name, f"should match: {','.join(wrong)}")
    replicas, field = getattr(job.spec, REPLICAS[kind]) or {}, f"spec.{KUBEFLOW[kind].replicas}"
    yield from _of_roles(kind, field, replicas)
    for key, replica in replicas.items():
        path = f"{field}[{key}]"
        spec = (replica.template and replica.template.spec) or kube.TemplateSpec()
        if container not in [each.name for each in spec.containers or ()]:
            rule = f"must have at least one container with name {container}"
            yield required(f"{path}.template.spec.containers", rule)
        if kind == "PyTorchJob" and key == "Master" and replica.replicas not in (None, 1):
            yield forbidden(f"{path}.replicas", "must be 1")


def _of_roles(kind: str, field: str, roles: Iterable[str]) -> Iterator[str]:
    """Validate the names of the roles.

    The operator's webhook distinguishes upper and lower case in role names, but the operator's controller does not.
    """
    known = KUBEFLOW[kind].roles.values()
    if kind == "PyTorchJob":
        yield from (not_supported(f"{field}[{key}]", key, known) for key in roles if key not in known)
    if kind == "TFJob" and {"Chief", "Master"} <= set(roles):
        yield forbidden(field, "must not have more than 1 Chief or Master role")
