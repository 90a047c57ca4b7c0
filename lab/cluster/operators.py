"""Install the Kubeflow operators from their projects' manifests, and a gang scheduler.

The operators' CRDs for MPIJob have the same name. So a cluster has only one version of MPIJob: v2beta1 (mpi-operator),
v1 (training-operator) or v1alpha2 (the old mpi-operator). `switch` replaces the operators while the cluster runs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from lab.builds.golang import binary, module_dir
from lab.builds.images import scratch_image
from lab.cluster.client import apply, kubectl, load_image
from lab.errors import LabError
from lab.paths import STATE_DIR

Manifest = dict[str, Any]

MPIJOB_VERSIONS = ("v2beta1", "v1", "v1alpha2")
GANG_SCHEDULER = "scheduler-plugins-scheduler"
BUSYBOX = Path("/bin/busybox")
# The busybox shell would run its built-in `nslookup` instead of this program.
SHELL = Path("/bin/bash-static")
BUSYBOX_IMAGE = "docker.io/distrain/busybox:lab"
KUBECTL_DELIVERY_IMAGE = "docker.io/distrain/kubectl-delivery:lab"
# The init container kubectl-delivery of the old operator also waits for the workers.
OLD_KUBECTL_DELIVERY_IMAGE = "docker.io/distrain/kubectl-delivery-0.3:lab"
_INSTALLED = STATE_DIR / "operators.json"


@dataclass(frozen=True)
class Operators:
    """Which operators to install: the version of MPIJob ("" for none), training-operator, and a gang scheduler."""

    mpijob: str = "v2beta1"
    training: bool = True
    gang: bool = False


DEFAULT = Operators()
NONE = Operators(mpijob="", training=False)


@dataclass(frozen=True)
class _Operator:
    """An operator: the name and namespace of its Deployment, its image, and its program.

    `manifests` and `arguments` return its manifests and its arguments, given all operators that are to be installed.
    """

    name: str
    namespace: str
    image: str
    program: str
    entrypoint: str
    manifests: Callable[[Operators], Iterator[Manifest]]
    arguments: Callable[[Operators], list[str]]


def install(chosen: Operators) -> None:
    """Install the chosen operators into a cluster without operators. Raises LabError if an operator is not ready."""
    if chosen.gang:
        _install_scheduler_plugins()
    operators = _operators(chosen)
    for operator in operators:
        load_image(
            scratch_image(operator.image, {operator.entrypoint: binary(operator.program)}, [operator.entrypoint])
        )
        apply(*(_adapted(manifest, operator, chosen) for manifest in operator.manifests(chosen)))
    _load_helper_images(chosen)
    for operator in operators:
        _wait_for(operator.namespace, operator.name)
    _INSTALLED.write_text(json.dumps(asdict(chosen)))


def installed() -> Operators | None:
    """Return the installed operators. Return None if no cluster runs, or if an installation was interrupted."""
    return Operators(**json.loads(_INSTALLED.read_text())) if _INSTALLED.exists() else None


def programs(chosen: Operators) -> list[str]:
    """Return the Go programs that these operators need."""
    helpers = [
        *(["nslookup"] if chosen.training else []),
        *(["kubectl-delivery"] if chosen.mpijob == "v1alpha2" else []),
        *(["scheduler", "controller"] if chosen.gang else []),
    ]
    return [*(operator.program for operator in _operators(chosen)), *helpers]


def add_training_operator() -> None:
    """Install training-operator if the running cluster lacks it."""
    found = installed()
    if found and not found.training:
        install(replace(found, training=True))


def ends_jobs(chosen: Operators) -> bool:
    """Return whether a switch from the installed operators to the operators in `chosen` would end jobs.

    No job ends if no operator is installed, or if `chosen` contains the installed operators and training-operator, and
    nothing else.
    """
    found = installed()
    return found != NONE and (found is None or replace(found, training=True) != chosen)


def switch(chosen: Operators) -> None:
    """Install these operators in the running cluster, instead of the operators that are installed now.

    If this ends jobs (see ends_jobs), first remove all operators and their CRDs, which deletes all jobs of these CRDs.
    """
    if ends_jobs(chosen):
        remove()
    install(chosen)


def remove() -> None:
    """Remove all operators, their CRDs and their webhooks."""
    _INSTALLED.unlink(missing_ok=True)
    for namespace in ("mpi-operator", "kubeflow", "scheduler-plugins"):
        kubectl("-n", namespace, "delete", "deployments", "--all", "--ignore-not-found", "--cascade=foreground")
    webhooks = "validator.training-operator.kubeflow.org"
    kubectl("delete", "validatingwebhookconfigurations", webhooks, "--ignore-not-found")
    crds = [
        name for name in kubectl("get", "crds", "-o", "name").split() if name.endswith((".kubeflow.org", ".x-k8s.io"))
    ]
    if crds:
        kubectl("delete", *crds, "--wait")


def status(name: str) -> str:
    """Return how many pods of an operator are ready, as text, or "not installed"."""
    path = "jsonpath={.items[0].status.readyReplicas} of {.items[0].spec.replicas} ready"
    field = f"--field-selector=metadata.name={name}"
    found = kubectl("get", "deployments", "--all-namespaces", field, "--ignore-not-found", "-o", "name")
    return kubectl("get", "deployments", "--all-namespaces", field, "-o", path) if found else "not installed"


def _operators(chosen: Operators) -> list[_Operator]:
    found = []
    if chosen.training or chosen.mpijob == "v1":
        found.append(_TRAINING_OPERATOR)
    if chosen.mpijob == "v2beta1":
        found.append(_MPI_OPERATOR)
    elif chosen.mpijob == "v1alpha2":
        found.append(_OLD_MPI_OPERATOR)
    return found


def _adapted(manifest: Manifest, operator: _Operator, chosen: Operators) -> Manifest:
    """Make an operator's Deployment use the image that was built here, and probe its readiness every second."""
    if manifest["kind"] == "Deployment":
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        container |= {"image": operator.image, "command": [operator.entrypoint], "args": operator.arguments(chosen)}
        container["imagePullPolicy"] = "IfNotPresent"
        container.get("readinessProbe", {}).update(initialDelaySeconds=0, periodSeconds=1)
    return manifest


def _old_mpi_operator_manifests(_: Operators) -> Iterator[Manifest]:
    """Yield the manifests of the old mpi-operator for v1alpha2.

    The CRD for newer Kubernetes versions comes from the same release.
    """
    source = module_dir("mpi-operator-0.3", "github.com/kubeflow/mpi-operator")
    installation = source / "deploy" / "v1alpha2" / "mpi-operator.yaml"
    for path in (source / "manifests" / "base" / "crd.yaml", installation):
        for manifest in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if manifest["apiVersion"] != "apiextensions.k8s.io/v1beta1":
                yield manifest


def _training_operator_manifests(chosen: Operators) -> Iterator[Manifest]:
    """Yield training-operator's manifests. Leave out the CRD of MPIJob if another version than v1 is chosen."""
    for manifest in _kustomize("training-operator", "github.com/kubeflow/training-operator"):
        name = manifest["metadata"]["name"]
        if name != "mpijobs.kubeflow.org" or chosen.mpijob == "v1":
            yield manifest


def _kustomize(module: str, path: str) -> Iterator[Manifest]:
    """Yield an operator's standalone manifests, without the ClusterRoles `kubeflow-*`: they extend Kubeflow's roles."""
    source = module_dir(module, path)
    rendered = kubectl("kustomize", str(source / "manifests" / "overlays" / "standalone"))
    for manifest in yaml.load_all(rendered, yaml.CSafeLoader):
        if not manifest["metadata"]["name"].startswith("kubeflow-"):
            yield manifest


def _training_operator_arguments(chosen: Operators) -> list[str]:
    schemes = ["mxjob", "pytorchjob", "tfjob", *(["mpijob"] if chosen.mpijob == "v1" else [])]
    return [
        *(f"--enable-scheme={scheme}" for scheme in schemes),
        f"--pytorch-init-container-image={BUSYBOX_IMAGE}",
        f"--mpi-kubectl-delivery-image={KUBECTL_DELIVERY_IMAGE}",
        *([f"--gang-scheduler-name={GANG_SCHEDULER}"] if chosen.gang else []),
    ]


_MPI_OPERATOR = _Operator(
    name="mpi-operator",
    namespace="mpi-operator",
    image="docker.io/mpioperator/mpi-operator:0.8.0",
    program="mpi-operator",
    entrypoint="/mpi-operator",
    manifests=lambda _: _kustomize("mpi-operator", "github.com/kubeflow/mpi-operator"),
    arguments=lambda chosen: [
        "-alsologtostderr",
        "--lock-namespace=mpi-operator",
        *([f"--gang-scheduling={GANG_SCHEDULER}"] if chosen.gang else []),
    ],
)
_OLD_MPI_OPERATOR = _Operator(
    name="mpi-operator",
    namespace="mpi-operator",
    image="docker.io/mpioperator/mpi-operator:0.3.0",
    program="mpi-operator.v1alpha2",
    entrypoint="/opt/mpi-operator",
    manifests=_old_mpi_operator_manifests,
    arguments=lambda _: [
        "-logtostderr",
        "--lock-namespace=mpi-operator",
        f"--kubectl-delivery-image={OLD_KUBECTL_DELIVERY_IMAGE}",
    ],
)
_TRAINING_OPERATOR = _Operator(
    name="training-operator",
    namespace="kubeflow",
    image="docker.io/kubeflow/training-operator:1.8.1",
    program="training-operator.v1",
    entrypoint="/manager",
    manifests=_training_operator_manifests,
    arguments=_training_operator_arguments,
)


def _load_helper_images(chosen: Operators) -> None:
    """Load the images of the init containers that operators add to jobs.

    Without these images on the node, kubelet would pull them from a registry.
    """
    applets = {"/bin/sh": SHELL, **{f"/bin/{name}": BUSYBOX for name in ("cp", "seq", "sleep")}}
    with_kubectl = {**applets, "/bin/kubectl": binary("kubectl")}
    copy = "cp /bin/kubectl /opt/kube/kubectl"
    if chosen.training:
        load_image(scratch_image(BUSYBOX_IMAGE, {**applets, "/bin/nslookup": binary("nslookup")}, ["/bin/sh"]))
    if chosen.mpijob == "v1":
        load_image(scratch_image(KUBECTL_DELIVERY_IMAGE, with_kubectl, ["/bin/sh", "-c", copy]))
    if chosen.mpijob == "v1alpha2":
        programs = {**with_kubectl, "/bin/kubectl-delivery": binary("kubectl-delivery")}
        wait = f"{copy} && /bin/kubectl-delivery -logtostderr"
        load_image(scratch_image(OLD_KUBECTL_DELIVERY_IMAGE, programs, ["/bin/sh", "-c", wait]))


def _install_scheduler_plugins() -> None:
    """Install coscheduling as a second scheduler, from the chart of scheduler-plugins."""
    source = module_dir("scheduler-plugins", "sigs.k8s.io/scheduler-plugins") / "manifests"
    images = {"scheduler": "docker.io/scheduler-plugins/kube-scheduler:v0.33.5"}
    images["controller"] = "docker.io/scheduler-plugins/controller:v0.33.5"
    for name, image in images.items():
        path = {"scheduler": "/bin/kube-scheduler", "controller": "/manager"}[name]
        load_image(scratch_image(image, {path: binary(name)}, [path]))
    namespace = "scheduler-plugins"
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    kubectl("apply", "--server-side", "-f", str(source / "coscheduling" / "crd.yaml"))
    values = {"plugins.enabled": "{Coscheduling}", **{f"{name}.image": image for name, image in images.items()}}
    apply(*_helm_template(source / "install" / "charts" / "as-a-second-scheduler", namespace, values))
    for deployment in (GANG_SCHEDULER, "scheduler-plugins-controller"):
        _wait_for(namespace, deployment)


def _helm_template(chart: Path, namespace: str, values: Mapping[str, str]) -> Iterator[Manifest]:
    settings = [argument for key, value in values.items() for argument in ("--set", f"{key}={value}")]
    command = [str(binary("helm4")), "template", "scheduler", str(chart), "--namespace", namespace, *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{chart}: {done.stderr.strip()}")
    yield from yaml.safe_load_all(done.stdout)


def _wait_for(namespace: str, deployment: str) -> None:
    kubectl("-n", namespace, "rollout", "status", f"deployment/{deployment}", "--timeout=180s")
