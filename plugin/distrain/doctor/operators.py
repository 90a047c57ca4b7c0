"""Find the cluster's operators, by the APIs that it serves and the Deployments that run.

Pure functions. Every user may discover APIs. Deployments, which tell the operators' versions, are often forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from distrain import kube
from distrain.doctor.findings import MISSING, OK, UNKNOWN, Finding
from distrain.doctor.survey import Survey, Unread

SECTION = "operators"
# The API versions of each kind that the chart can render, the newest first.
VERSIONS: Mapping[str, Sequence[str]] = {
    "MPIJob": ("v2beta1", "v1", "v1alpha2"),
    "PyTorchJob": ("v1",),
    "TFJob": ("v1",),
    "MXJob": ("v1", "v1beta1"),
}
MPI_OPERATOR, TRAINING_OPERATOR = "mpi-operator", "training-operator"
# The colon before a registry's port does not match: a slash follows the port.
TAG = re.compile(r":(?P<tag>[^/:]+)$")


class Operator(Struct, frozen=True):
    """An operator: the kinds that it serves, the suffixes of its image's name, and advice if it is missing."""

    name: str
    kinds: tuple[str, ...]
    images: tuple[str, ...]
    without: str


OPERATORS = (
    Operator(
        MPI_OPERATOR,
        ("kubeflow.org/v2beta1/MPIJob", "kubeflow.org/v1alpha2/MPIJob"),
        ("mpi-operator",),
        "for MPIJob install 0.4.0 or newer (https://github.com/kubeflow/mpi-operator)",
    ),
    Operator(
        TRAINING_OPERATOR,
        tuple(f"kubeflow.org/v1/{kind}" for kind in ("PyTorchJob", "TFJob", "MXJob")),
        ("training-operator",),
        "for PyTorchJob and TFJob install 1.9 (https://github.com/kubeflow/trainer/tree/release-1.9)",
    ),
    Operator("kueue", ("kueue.x-k8s.io/*/LocalQueue",), ("kueue",), "needed for gang.scheduler=kueue alone"),
    Operator(
        "scheduler-plugins",
        ("scheduling.x-k8s.io/*/PodGroup",),
        ("scheduler-plugins/kube-scheduler",),
        "needed for gang.scheduler=scheduler-plugins alone",
    ),
    Operator(
        "volcano", ("scheduling.volcano.sh/*/PodGroup",), ("vc-scheduler",), "needed for gang.scheduler=volcano alone"
    ),
    Operator(
        "prometheus-operator",
        ("monitoring.coreos.com/v1/PodMonitor",),
        ("prometheus-operator",),
        "needed for monitoring.podMonitor=true alone",
    ),
)
GROUPS = tuple(dict.fromkeys(kind.split("/")[0] for operator in OPERATORS for kind in operator.kinds))


def versions(kind: str, served: Sequence[str]) -> list[str]:
    """Return the versions of a kind that the cluster serves and the chart can render."""
    return [version for version in VERSIONS.get(kind, ()) if f"kubeflow.org/{version}/{kind}" in served]


def kinds(served: Sequence[str]) -> list[str]:
    """Return the kinds of Kubeflow jobs that the cluster serves and the chart can render."""
    return [kind for kind in VERSIONS if versions(kind, served)]


def operator_of(kind: str, versions: Sequence[str]) -> str:
    """Return the name of the operator of a kind that is served in these versions.

    An MPIJob that is served in v1 alone belongs to the training-operator.
    """
    return MPI_OPERATOR if kind == "MPIJob" and [*versions] != ["v1"] else TRAINING_OPERATOR


def findings(survey: Survey) -> list[Finding]:
    """Return a finding per operator: whether it is installed, its version, and the APIs that it serves."""
    if isinstance(survey.served, Unread):
        return [Finding(SECTION, operator.name, UNKNOWN, survey.served.why) for operator in OPERATORS]
    return [_finding(operator, survey.served, survey.deployments) for operator in OPERATORS]


def _finding(operator: Operator, served: Sequence[str], deployments: Sequence[kube.Workload] | Unread) -> Finding:
    apis = _of(operator, served)
    if not apis:
        return Finding(SECTION, operator.name, MISSING, "none of its APIs is served", operator.without)
    serves = f"serves {', '.join(' '.join(reversed(api.split('/')[1:])) for api in apis)}"
    details = {"apis": apis}
    if isinstance(deployments, Unread):
        found = f"{serves}; its version is unknown: {deployments.why}"
        return Finding(SECTION, operator.name, OK, found, details=details)
    running = [deployment for deployment in deployments if _image(operator, deployment)]
    if not running:
        found = f"{serves}, but no Deployment of all namespaces runs {' or '.join(operator.images)}"
        return Finding(SECTION, operator.name, UNKNOWN, found, "see whether it runs under another name", False, details)
    return _running(operator, running[0], serves, apis)


def _running(operator: Operator, deployment: kube.Workload, serves: str, apis: Sequence[str]) -> Finding:
    version = _tag(_image(operator, deployment))
    metadata = deployment.metadata
    details = {"apis": apis, "version": version, "namespace": metadata.namespace}
    if deployment.status.ready_replicas:
        return Finding(SECTION, operator.name, OK, f"{version}, {serves}", details=details)
    found = f"{version}, {serves}, but no pod of Deployment {metadata.name} in namespace {metadata.namespace} is ready"
    look = f"see `kubectl --namespace {metadata.namespace} describe deployment {metadata.name}`"
    return Finding(SECTION, operator.name, MISSING, found, look, False, details)


def _of(operator: Operator, served: Sequence[str]) -> list[str]:
    """Return the operator's APIs that the cluster serves."""
    patterns = [re.compile(kind.replace(".", r"\.").replace("*", "[^/]+")) for kind in operator.kinds]
    apis = [api for api in served if any(pattern.fullmatch(api) for pattern in patterns)]
    if operator.name == operator_of("MPIJob", versions("MPIJob", served)) == TRAINING_OPERATOR:
        apis.append("kubeflow.org/v1/MPIJob")
    return apis


def _image(operator: Operator, deployment: kube.Workload) -> str:
    """Return the operator's image in a Deployment, or an empty string."""
    spec = (deployment.spec.template and deployment.spec.template.spec) or kube.PodSpec()
    images = [container.image or "" for container in spec.containers or ()]
    ends = tuple(f"/{image}" for image in operator.images)
    return next((image for image in images if f"/{_repository(image)}".endswith(ends)), "")


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    found = TAG.search(name)
    return name[: found.start()] if found else name


def _tag(image: str) -> str:
    """Return the tag of an image, otherwise the start of its digest, otherwise "latest"."""
    name, _, digest = image.partition("@")
    found = TAG.search(name)
    return found["tag"] if found else digest[:19] or "latest"
