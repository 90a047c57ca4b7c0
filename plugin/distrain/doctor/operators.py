"""Find a cluster's operators from the APIs that it serves and from its Deployments.

Pure functions. Every user has permission to list the APIs that a cluster serves. Deployments show the versions of the
operators, but users often have no permission to read Deployments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from distrain import kube
from distrain.doctor.findings import ABSENT, MISSING, OK, UNKNOWN, Finding
from distrain.doctor.survey import Survey, Unread
from distrain.workload.kinds import FACTS, KUBEFLOW, VERSIONS, Kind
from distrain.workload.wording import listed

SECTION = "operators"
# The colon before the port of a registry does not match, because a slash follows the port.
TAG = re.compile(r":(?P<tag>[^/:]+)$")
INSTALLS = [kind.install for kind in KUBEFLOW.values()]
# The Kubeflow kinds, sorted so that kinds which the same operator release installs are next to each other.
KINDS = sorted(KUBEFLOW.values(), key=lambda kind: INSTALLS.index(kind.install))


class Operator(Struct, frozen=True):
    """An operator: the kinds that it serves, the suffixes of its image's name, and advice for when it is missing."""

    name: str
    kinds: tuple[str, ...]
    images: tuple[str, ...]
    without: str


def _kubeflow(name: str) -> Operator:
    """Return the operator of this name. Of its APIs, include only those that no other operator serves."""
    own = tuple(f"{api}/{kind}" for (api, kind), version in VERSIONS.items() if version.operators == (name,))
    # Another kind of job may need an older release of the operator.
    newest = next(install for install in INSTALLS if install and install.operator == name)
    brought = listed([kind.name for kind in KINDS if kind.install == newest])
    return Operator(name, own, (name,), f"needed only for {brought}: install {newest.release} ({newest.url})")


OPERATORS = (
    *map(_kubeflow, FACTS.operators),
    Operator("kueue", ("kueue.x-k8s.io/*/LocalQueue",), ("kueue",), "needed only for gang.scheduler=kueue"),
    Operator(
        "scheduler-plugins",
        ("scheduling.x-k8s.io/*/PodGroup",),
        ("scheduler-plugins/kube-scheduler",),
        "needed only for gang.scheduler=scheduler-plugins",
    ),
    Operator(
        "volcano", ("scheduling.volcano.sh/*/PodGroup",), ("vc-scheduler",), "needed only for gang.scheduler=volcano"
    ),
    Operator(
        "prometheus-operator",
        ("monitoring.coreos.com/v1/PodMonitor",),
        ("prometheus-operator",),
        "needed only for monitoring.podMonitor=true",
    ),
)
GROUPS = tuple(dict.fromkeys(kind.split("/")[0] for operator in OPERATORS for kind in operator.kinds))


def versions(kind: Kind, served: Sequence[str]) -> list[str]:
    """Return those versions of a kind that the cluster serves and the chart can render."""
    return [version.name for version in kind.versions if f"{version.api_version}/{kind.name}" in served]


def kinds(served: Sequence[str]) -> list[str]:
    """Return the names of the Kubeflow kinds that the cluster serves and the chart can render."""
    return [kind.name for kind in KINDS if versions(kind, served)]


def operator_of(kind: Kind, versions: Sequence[str]) -> str:
    """Return the name of the operator that serves a kind in this cluster.

    Several operators may serve the same kind, so choose the first known operator that serves all of these versions.
    """
    serving = [version.operators for version in kind.versions if version.name in versions and version.operators]
    for operator in serving[0] if serving else ():
        if all(operator in others for others in serving):
            return operator
    return kind.install.operator if kind.install else ""


def findings(survey: Survey) -> list[Finding]:
    """Return one finding for each operator: whether it is installed, its version, and the APIs that it serves."""
    if isinstance(survey.served, Unread):
        return [Finding(SECTION, operator.name, UNKNOWN, survey.served.why) for operator in OPERATORS]
    return [_finding(operator, survey, survey.served) for operator in OPERATORS]


def _finding(operator: Operator, survey: Survey, served: Sequence[str]) -> Finding:
    apis, deployments = _of(operator, served), survey.deployments
    if not apis:
        return Finding(SECTION, operator.name, ABSENT, "none of its APIs is served", operator.without)
    serves = f"serves {', '.join(' '.join(reversed(api.split('/')[1:])) for api in apis)}"
    details = {"apis": apis}
    if isinstance(deployments, Unread):
        found = f"{serves}; its version is unknown: {deployments.why}"
        return Finding(SECTION, operator.name, OK, found, details=details)
    running = [deployment for deployment in deployments if _image(operator, deployment)]
    if not running:
        found = f"{serves}, but no Deployment of all namespaces runs {' or '.join(operator.images)}"
        return Finding(SECTION, operator.name, UNKNOWN, found, "see whether it runs under another name", False, details)
    return _running(operator, running[0], serves, apis, survey.kubectl_flags)


def _running(
    operator: Operator, deployment: kube.Workload, serves: str, apis: Sequence[str], kubectl_flags: str
) -> Finding:
    version = _tag(_image(operator, deployment))
    metadata = deployment.metadata
    details = {"apis": apis, "version": version, "namespace": metadata.namespace}
    if deployment.status.ready_replicas:
        return Finding(SECTION, operator.name, OK, f"{version}, {serves}", details=details)
    found = f"{version}, {serves}, but no pod of Deployment {metadata.name} in namespace {metadata.namespace} is ready"
    flags = f"--namespace {metadata.namespace}{kubectl_flags}"
    look = f"see `kubectl {flags} describe deployment {metadata.name}`"
    return Finding(SECTION, operator.name, MISSING, found, look, False, details)


def _of(operator: Operator, served: Sequence[str]) -> list[str]:
    """Return those APIs of the operator that the cluster serves."""
    patterns = [re.compile(kind.replace(".", r"\.").replace("*", "[^/]+")) for kind in operator.kinds]
    apis = [api for api in served if any(pattern.fullmatch(api) for pattern in patterns)]
    return [*apis, *_shared(operator, served, apis)]


def _shared(operator: Operator, served: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    """Several operators can serve the same API.

    Yield such APIs if `operator_of` chooses this operator for their kind. Skip kinds that `own` already has.
    """
    for (api_version, name), version in VERSIONS.items():
        kind, api = KUBEFLOW[name], f"{api_version}/{name}"
        if len(version.operators) < 2 or api not in served or any(other.endswith(f"/{name}") for other in own):
            continue
        if operator_of(kind, versions(kind, served)) == operator.name:
            yield api


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
    """Return the tag of an image. Without a tag, return the start of the digest; without either, "latest"."""
    name, _, digest = image.partition("@")
    found = TAG.search(name)
    return found["tag"] if found else digest[:19] or "latest"
