"""Add to a job's pod templates what its controllers add, as far as the scheduler or the API server reads it.

Taken from the source of mpi-operator v0.8.0 (MPIJob v2beta1) and v0.3.0 (v1alpha2), training-operator v1.8.1 (MPIJob,
PyTorchJob, TFJob and MXJob v1), mxnet-operator v1.1.0 (MXJob v1beta1) and Kubernetes v1.34.4 (Job, StatefulSet).
Volumes are left out: the controllers add only volumes of ConfigMaps and Secrets that they create themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace
from msgspec.structs import replace as with_fields

from distrain import kube

Spec = TypeVar("Spec", bound=kube.PodSpec)
# An object by kind and name.
ObjectName = tuple[str, str]

# training-operator pkg/apis/kubeflow.org/v1/common_types.go, and mpi-operator pkg/apis/kubeflow/v2beta1/constants.go
OPERATOR_NAME, JOB_NAME, JOB_ROLE, REPLICA_TYPE, REPLICA_INDEX = (
    f"training.kubeflow.org/{key}" for key in ("operator-name", "job-name", "job-role", "replica-type", "replica-index")
)
# Set by an operator that runs with gang scheduling by scheduler-plugins. The manifest does not show that flag.
POD_GROUP = "scheduling.x-k8s.io/pod-group"

# The scheduler of pods without a schedulerName if the job has a schedulingPolicy. A flag of the operator sets its name.
GANG_SCHEDULER = "(the operator's gang scheduler)"

# mpi-operator v0.3.0 pkg/controllers/v1alpha2/mpi_job_controller.go and training-operator pkg/controller.v1/mpi/
# mpijob_controller.go, each in newLauncher: for each launcher that reaches its workers through kubectl exec.
_KUBECTL: kube.Amounts = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
KUBECTL_DELIVERY = kube.Container(name="kubectl-delivery", resources=kube.Resources(_KUBECTL, limits=_KUBECTL))
# training-operator pkg/controller.v1/pytorch/initcontainer.go, setInitContainer: for each Worker that has a Master.
INIT_PYTORCH = kube.Container(
    name="init-pytorch",
    resources=kube.Resources({"cpu": "50m", "memory": "10Mi"}, limits={"cpu": "100m", "memory": "20Mi"}),
)


class DefaultPort(Struct, frozen=True):
    """A default port of the container with this name, otherwise of the first container.

    Under hostNetwork it is a port of the node.
    """

    container: str
    name: str
    number: int


# training-operator pkg/apis/kubeflow.org/v1/*_defaults.go and defaulting_utils.go, setDefaultPort; mxnet-operator
# pkg/apis/mxnet/v1beta1/defaults.go
PYTORCH_PORT = DefaultPort("pytorch", "pytorchjob-port", 23456)
TENSORFLOW_PORT = DefaultPort("tensorflow", "tfjob-port", 2222)
MXNET_PORT = DefaultPort("mxnet", "mxjob-port", 9091)


class Added(Struct, frozen=True):
    """What a controller adds to the pods of one role; `scheduler` applies to pods that name none.

    `labels` override the template's. `varying` are keys of labels whose values differ between pods or are unknown
    before the pods exist. `creates` are objects that the controller creates for the pods.
    """

    labels: dict[str, str] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()
    init_containers: tuple[kube.Container, ...] = ()
    port: DefaultPort | None = None
    scheduler: str | None = None
    creates: frozenset[ObjectName] = frozenset()

    def to(self, spec: Spec) -> Spec:
        """Return the pod spec with these additions."""
        containers = list(spec.containers or ())
        if self.port and containers:
            names = [container.name for container in containers]
            index = names.index(self.port.container) if self.port.container in names else 0
            containers[index] = _with_port(containers[index], self.port)
        init_containers = [*(spec.init_containers or ()), *self.init_containers]
        scheduler = spec.scheduler_name or self.scheduler
        return with_fields(spec, containers=containers, init_containers=init_containers, scheduler_name=scheduler)


def _with_port(container: kube.Container, port: DefaultPort) -> kube.Container:
    ports = container.ports or []
    if any(each.name == port.name for each in ports):
        return container
    return with_fields(container, ports=[*ports, kube.Port(name=port.name, container_port=port.number)])


class PodOwner(Struct, frozen=True):
    """A resource whose controller creates pods, and its roles in lower case, such as launcher and worker.

    `in_gang` tells that a Kubeflow resource requests gang scheduling.
    """

    api_version: str
    kind: str
    name: str
    roles: Collection[str] = ()
    in_gang: bool = False


def added(owner: PodOwner, role: str = "") -> Added:
    """Return what the owner's controller adds to the pods of this role; `role` is one of the owner's roles."""
    made = RULES.get((owner.api_version, owner.kind), _nothing)(owner, role)
    return replace(made, scheduler=GANG_SCHEDULER) if owner.in_gang else made


def _nothing(owner: PodOwner, role: str) -> Added:
    return Added()


def _mpi_v2beta1(owner: PodOwner, role: str) -> Added:
    # mpi-operator v0.8.0 pkg/controller/mpi_job_controller.go: newWorker, newLauncherPodTemplate, defaultLabels,
    # newConfigMap, newSSHAuthSecret; podgroup.go: decoratePodTemplateSpec
    made = Added(
        {OPERATOR_NAME: "mpi-operator", JOB_NAME: owner.name, JOB_ROLE: role},
        frozenset({REPLICA_INDEX, POD_GROUP}),
        creates=frozenset({("ConfigMap", f"{owner.name}-config"), ("Secret", f"{owner.name}-ssh")}),
    )
    return _through_job(made, f"{owner.name}-launcher") if role == "launcher" else made


def _mpi_v1(owner: PodOwner, role: str) -> Added:
    # training-operator pkg/controller.v1/mpi/mpijob_controller.go: newWorker, newLauncher; mpijob.go:
    # defaultReplicaLabels
    made = _trained("mpijob-controller", owner, role, {"launcher"})
    made = replace(made, creates=frozenset({("ConfigMap", f"{owner.name}-config")}))
    return _with_kubectl(made, owner) if role == "launcher" else made


def _mpi_v1alpha2(owner: PodOwner, role: str) -> Added:
    # mpi-operator v0.3.0 pkg/controllers/v1alpha2/mpi_job_controller.go: newWorker, newLauncher
    made = Added(
        {"group_name": "kubeflow.org", "mpi_job_name": owner.name, "mpi_role_type": role},
        creates=frozenset({("ConfigMap", f"{owner.name}-config")}),
    )
    if role == "launcher":
        return _through_job(_with_kubectl(made, owner), f"{owner.name}-launcher")
    return _through_stateful_set(made)


def _pytorch(owner: PodOwner, role: str) -> Added:
    # training-operator pkg/controller.v1/pytorch/pytorchjob_controller.go: IsMasterRole, SetClusterSpec
    made = replace(_trained("pytorchjob-controller", owner, role, {"master"}), port=PYTORCH_PORT)
    has_master = "master" in owner.roles
    return replace(made, init_containers=(INIT_PYTORCH,)) if has_master and role == "worker" else made


def _tensorflow(owner: PodOwner, role: str) -> Added:
    # training-operator pkg/controller.v1/tensorflow/tfjob_controller.go: IsMasterRole
    return replace(_trained("tfjob-controller", owner, role, {"chief", "master"}), port=TENSORFLOW_PORT)


def _mxnet(owner: PodOwner, role: str) -> Added:
    # training-operator pkg/controller.v1/mxnet/mxjob_controller.go: IsMasterRole, which says so of every server
    return replace(_trained("mxjob-controller", owner, role, {"server"}), port=MXNET_PORT)


def _mxnet_v1beta1(owner: PodOwner, role: str) -> Added:
    # mxnet-operator v1.1.0 pkg/controller.v1beta1/mxnet/pod.go: createNewPod; controller.go: the labels' keys
    labels = {"group_name": "kubeflow.org", "mxnet_job_name": owner.name, "mxnet-replica-type": role}
    return Added(labels, frozenset({"mxnet-replica-index"}), port=MXNET_PORT)


def _trained(controller: str, owner: PodOwner, role: str, masters: Collection[str]) -> Added:
    # training-operator pkg/controller.v1/common/job_controller.go: GenLabels; pod.go: createNewPod;
    # control/podgroup_control.go: DecoratePodTemplateSpec
    labels = {OPERATOR_NAME: controller, JOB_NAME: owner.name, REPLICA_TYPE: role}
    varying = {REPLICA_INDEX, POD_GROUP}
    if role in masters:
        labels[JOB_ROLE] = "master"
    elif role == "worker" and not set(masters) & set(owner.roles):
        varying.add(JOB_ROLE)  # Worker 0 replaces the missing master.
    return Added(labels, frozenset(varying))


def _with_kubectl(made: Added, owner: PodOwner) -> Added:
    creates = made.creates | {("ServiceAccount", f"{owner.name}-launcher")}
    return replace(made, init_containers=(KUBECTL_DELIVERY,), creates=creates)


def _job(owner: PodOwner, role: str) -> Added:
    return _through_job(Added(), owner.name)


def _through_job(made: Added, name: str) -> Added:
    # Kubernetes pkg/registry/batch/job/strategy.go: generateSelector; pkg/controller/job/job_controller.go: manageJob
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    varying = {"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-completion-index"}
    return replace(made, labels={**made.labels, **labels}, varying=made.varying | varying)


def _stateful_set(owner: PodOwner, role: str) -> Added:
    return _through_stateful_set(Added())


def _through_stateful_set(made: Added) -> Added:
    # Kubernetes pkg/controller/statefulset/stateful_set_utils.go: updateIdentity, setPodRevision
    varying = {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
    return replace(made, varying=made.varying | varying)


RULES: dict[tuple[str, str], Callable[[PodOwner, str], Added]] = {
    ("kubeflow.org/v2beta1", "MPIJob"): _mpi_v2beta1,
    ("kubeflow.org/v1", "MPIJob"): _mpi_v1,
    ("kubeflow.org/v1alpha2", "MPIJob"): _mpi_v1alpha2,
    ("kubeflow.org/v1", "PyTorchJob"): _pytorch,
    ("kubeflow.org/v1", "TFJob"): _tensorflow,
    ("kubeflow.org/v1", "MXJob"): _mxnet,
    ("kubeflow.org/v1beta1", "MXJob"): _mxnet_v1beta1,
    ("batch/v1", "Job"): _job,
    ("apps/v1", "StatefulSet"): _stateful_set,
}

# Pod fields that an operator drops, because the Kubernetes API version that it was built with lacks them. A dot leads
# into a map, or into each item of a list. `overhead` is not listed: the pod's RuntimeClass sets it again.
_TERMS = [
    f"affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution" for kind in ("podAffinity", "podAntiAffinity")
]
_SINCE_1_32 = ["resources"]
_SINCE_1_17 = [
    *_SINCE_1_32,
    *("resourceClaims", "schedulingGates", "initContainers.restartPolicy", "volumes.ephemeral"),
    *(f"{term}.{key}" for term in _TERMS for key in ("namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")),
    *(f"topologySpreadConstraints.{key}" for key in ("minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy")),
    "topologySpreadConstraints.matchLabelKeys",
]
_SINCE_1_16 = [*_SINCE_1_17, "topologySpreadConstraints"]
DROPPED = {
    **{("kubeflow.org/v1", kind): _SINCE_1_32 for kind in ("MPIJob", "PyTorchJob", "TFJob", "MXJob")},
    ("kubeflow.org/v1beta1", "MXJob"): _SINCE_1_17,
    ("kubeflow.org/v1alpha2", "MPIJob"): _SINCE_1_16,
}


def understood(item: dict[str, Any]) -> dict[str, Any]:
    """Return a resource without the pod fields that its operator does not know."""
    for path in DROPPED.get((str(item.get("apiVersion")), str(item.get("kind"))), ()):
        item = _without(item, ["spec", "*", "*", "template", "spec", *path.split(".")])
    return item


def _without(tree: Any, path: Sequence[str]) -> Any:
    if isinstance(tree, list):
        return [_without(item, path) for item in tree]
    if not isinstance(tree, dict):
        return tree
    first, *rest = path
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    return {key: _without(value, rest) if first in ("*", key) else value for key, value in tree.items()}
