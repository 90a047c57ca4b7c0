"""Test which fields a controller adds to and removes from the pods of each role.

made_pods.py compares the same fields with real pods.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
import yaml

from distrain.workload.manifest import Job, PodRole, from_manifest
from tests.plugin.objects import JOB, Object, batch_job, mpi_job, mx_job, pytorch_job, template, tf_job

KUBEFLOW = "training.kubeflow.org"
INDEX, ROLE, POD_GROUP = f"{KUBEFLOW}/replica-index", f"{KUBEFLOW}/job-role", "scheduling.x-k8s.io/pod-group"
LAUNCHER = f"{JOB}-launcher"
OF_JOB = {"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-completion-index"}
OF_SET = {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}


def _role(documents: Object | list[Object], name: str) -> PodRole:
    return next(role for role in _job(documents).roles if role.name == name)


def _job(documents: Object | list[Object]) -> Job:
    found = documents if isinstance(documents, list) else [documents]
    return from_manifest(yaml.safe_dump_all(found), "--manifest")


def _named(job: str) -> dict[str, str]:
    return {"batch.kubernetes.io/job-name": job, "job-name": job}


def _mpi(role: str) -> dict[str, str]:
    return {f"{KUBEFLOW}/operator-name": "mpi-operator", f"{KUBEFLOW}/job-name": JOB, ROLE: role}


def _old_mpi(role: str) -> dict[str, str]:
    return {"group_name": "kubeflow.org", "mpi_job_name": JOB, "mpi_role_type": role}


def _trained(kind: str, role: str, *, master: bool = False) -> dict[str, str]:
    labels = {f"{KUBEFLOW}/operator-name": f"{kind}-controller", f"{KUBEFLOW}/job-name": JOB}
    return {**labels, f"{KUBEFLOW}/replica-type": role, **({ROLE: "master"} if master else {})}


def _old_mxnet(role: str) -> dict[str, str]:
    return {"group_name": "kubeflow.org", "mxnet_job_name": JOB, "mxnet-replica-type": role}


MX_V1, MX_V1BETA1 = (mx_job(servers=2, workers=2, version=version) for version in ("v1", "v1beta1"))
TF = tf_job(servers=1, workers=2)
TRAINED = {INDEX, POD_GROUP}
WITHOUT_ROLE = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "ps"}}


@pytest.mark.parametrize(
    ("job", "role", "labels", "varying"),
    [
        pytest.param(
            mpi_job(), "launcher", {**_mpi("launcher"), **_named(LAUNCHER)}, {*TRAINED, *OF_JOB}, id="v2beta1"
        ),
        pytest.param(mpi_job(), "worker", _mpi("worker"), TRAINED, id="v2beta1-worker"),
        pytest.param(mpi_job(version="v1"), "launcher", _trained("mpijob", "launcher", master=True), TRAINED, id="v1"),
        pytest.param(mpi_job(version="v1"), "worker", _trained("mpijob", "worker"), TRAINED, id="v1-worker"),
        pytest.param(
            mpi_job(version="v1alpha2"), "launcher", {**_old_mpi("launcher"), **_named(LAUNCHER)}, OF_JOB, id="v1alpha2"
        ),
        pytest.param(mpi_job(version="v1alpha2"), "worker", _old_mpi("worker"), OF_SET, id="v1alpha2-worker"),
        pytest.param(
            pytorch_job(workers=3), "worker", _trained("pytorchjob", "worker"), {*TRAINED, ROLE}, id="pytorch-elastic"
        ),
        pytest.param(
            pytorch_job(workers=3, master=True),
            "master",
            _trained("pytorchjob", "master", master=True),
            TRAINED,
            id="pytorch-master",
        ),
        pytest.param(
            pytorch_job(workers=3, master=True),
            "worker",
            _trained("pytorchjob", "worker"),
            TRAINED,
            id="pytorch-worker-of-master",
        ),
        pytest.param(MX_V1, "scheduler", _trained("mxjob", "scheduler"), TRAINED, id="mxnet-scheduler"),
        pytest.param(MX_V1, "server", _trained("mxjob", "server", master=True), TRAINED, id="mxnet-server"),
        pytest.param(MX_V1, "worker", _trained("mxjob", "worker"), TRAINED, id="mxnet-worker"),
        pytest.param(MX_V1BETA1, "server", _old_mxnet("server"), {"mxnet-replica-index"}, id="mxnet-v1beta1"),
        pytest.param(TF, "chief", _trained("tfjob", "chief", master=True), TRAINED, id="tensorflow-chief"),
        pytest.param(TF, "ps", _trained("tfjob", "ps"), TRAINED, id="tensorflow-server"),
        pytest.param(TF, "worker", _trained("tfjob", "worker"), TRAINED, id="tensorflow-worker"),
        pytest.param(batch_job("once", template("worker", {})), "worker", _named("once"), OF_JOB, id="job"),
        pytest.param({**WITHOUT_ROLE, "spec": {"template": template("web", {})}}, "web", {}, OF_SET, id="stateful-set"),
    ],
)
def test_pods_have_the_labels_of_their_controller(
    job: Object, role: str, labels: dict[str, str], varying: set[str]
) -> None:
    found = _role(job, role)

    ours = {key for key in found.labels if key.startswith("app.kubernetes.io/")}
    assert {key: value for key, value in found.labels.items() if key not in ours} == labels
    assert len(ours) == 3
    assert found.varying == varying


def test_label_that_varies_is_not_told_from_the_template() -> None:
    job = mpi_job()
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["labels"][INDEX] = "7"

    assert INDEX not in _role(job, "worker").labels


def test_controllers_labels_win_over_the_templates() -> None:
    job = mpi_job()
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["labels"][ROLE] = "mine"

    assert _role(job, "worker").labels[ROLE] == "worker"


def test_roles_may_be_written_in_any_case() -> None:
    job = pytorch_job(workers=2, master=True)
    replicas = job["spec"]["pytorchReplicaSpecs"]
    job["spec"]["pytorchReplicaSpecs"] = {"MASTER": replicas["Master"], "worker": replicas["Worker"]}

    assert _role(job, "worker").request["cpu"] == 50


@pytest.mark.parametrize(
    ("job", "role", "ports"),
    [
        pytest.param(pytorch_job(workers=2), "worker", [23456], id="pytorch"),
        pytest.param(pytorch_job(workers=2, master=True), "master", [23456], id="pytorch-master"),
        pytest.param(TF, "ps", [2222], id="tensorflow"),
        pytest.param(MX_V1, "scheduler", [9091], id="mxnet"),
        pytest.param(MX_V1BETA1, "worker", [9091], id="mxnet-v1beta1"),
        pytest.param(mpi_job(), "worker", [], id="mpi-v2beta1"),
        pytest.param(mpi_job(version="v1"), "worker", [], id="mpi-v1"),
        pytest.param(batch_job("once", template("worker", {})), "worker", [], id="job"),
    ],
)
def test_frameworks_port_is_the_nodes_on_its_network(job: Object, role: str, ports: list[int]) -> None:
    on_host = copy.deepcopy(job)
    for replica in _templates(on_host):
        replica["spec"]["hostNetwork"] = True

    assert _ports(_role(on_host, role), "host_port") == ports
    assert _ports(_role(job, role), "container_port") == ports
    assert not any(_ports(_role(job, role), "host_port"))


@pytest.mark.parametrize(
    ("containers", "numbers"),
    [
        pytest.param([{"name": "logs"}, {"name": "pytorch"}], {"pytorch": [23456]}, id="by-name"),
        pytest.param([{"name": "logs"}, {"name": "main"}], {"logs": [23456]}, id="first"),
        pytest.param(
            [{"name": "pytorch", "ports": [{"name": "pytorchjob-port", "containerPort": 1}]}],
            {"pytorch": [1]},
            id="given",
        ),
        pytest.param(
            [{"name": "pytorch", "ports": [{"name": "metrics", "containerPort": 1}]}],
            {"pytorch": [1, 23456]},
            id="beside-others",
        ),
    ],
)
def test_frameworks_port_goes_to_its_container(containers: list[Object], numbers: dict[str, list[int]]) -> None:
    job = pytorch_job(workers=2)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = containers

    spec = _role(job, "worker").spec

    found = {one.name: [port.container_port for port in one.ports or ()] for one in spec.containers or ()}
    assert {name: ports for name, ports in found.items() if ports} == numbers


ALL_NEW = {"resources", "restart", "spread", "selector"}
NEW_FIELDS = {
    "resources": {"requests": {"cpu": "9"}},
    "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}],
    "topologySpreadConstraints": [{"topologyKey": "zone", "nodeTaintsPolicy": "Honor"}],
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["a"], "namespaceSelector": {}}]
        }
    },
}


@pytest.mark.parametrize(
    ("job", "kept"),
    [
        pytest.param(mpi_job(worker=NEW_FIELDS), ALL_NEW, id="mpi-v2beta1"),
        pytest.param(mpi_job(worker=NEW_FIELDS, version="v1"), ALL_NEW - {"resources"}, id="mpi-v1"),
        pytest.param(mpi_job(worker=NEW_FIELDS, version="v1alpha2"), set(), id="mpi-v1alpha2"),
        pytest.param(batch_job("once", template("worker", {}, NEW_FIELDS)), ALL_NEW, id="job"),
    ],
)
def test_fields_that_the_operator_does_not_know_never_reach_its_pods(job: Object, kept: set[str]) -> None:
    spec = _role(job, "worker").spec

    (sidecar,) = spec.init_containers or ()
    (term,) = spec.affinity.pod_affinity.required  # type: ignore[union-attr,misc]
    found = {
        "resources": spec.resources,
        "restart": sidecar.restart_policy,
        "spread": spec.topology_spread_constraints,
        "selector": None if term.namespace_selector is None else "given",
    }
    assert {name for name, value in found.items() if value} == kept
    assert term.namespaces == ["a"]


@pytest.mark.parametrize("kind", ["kubeflow.org/v1 MXJob", "kubeflow.org/v1 TFJob", "kubeflow.org/v1 PyTorchJob"])
def test_training_operator_drops_resources_of_a_pod_as_a_whole(kind: str) -> None:
    jobs = (MX_V1, TF, pytorch_job(workers=2))
    job = copy.deepcopy(next(one for one in jobs if f"{one['apiVersion']} {one['kind']}" == kind))
    for replica in _templates(job):
        replica["spec"]["resources"] = {"requests": {"cpu": "9"}}

    assert _role(job, "worker").request.get("cpu") is None


def test_null_among_dropped_fields_is_like_nothing() -> None:
    job = mpi_job(worker={"affinity": None, "initContainers": None, "volumes": None}, version="v1alpha2")

    assert _role(job, "worker").replicas == 2


def test_pods_of_a_gang_go_to_the_operators_scheduler() -> None:
    job = mpi_job(launcher={"schedulerName": "mine"})
    job["spec"]["runPolicy"] = {"schedulingPolicy": {"minAvailable": 3}}

    assert _role(job, "worker").spec.scheduler_name == "(the operator's gang scheduler)"
    assert _role(job, "launcher").spec.scheduler_name == "mine"
    assert _role(mpi_job(), "worker").spec.scheduler_name is None


@pytest.mark.parametrize(
    ("job", "made"),
    [
        pytest.param(
            mpi_job(), {("ConfigMap", f"{JOB}-config"), ("Secret", f"{JOB}-ssh"), ("Job", LAUNCHER)}, id="v2beta1"
        ),
        pytest.param(mpi_job(version="v1"), {("ConfigMap", f"{JOB}-config"), ("ServiceAccount", LAUNCHER)}, id="v1"),
        pytest.param(
            mpi_job(version="v1alpha2"),
            {
                *(("ConfigMap", f"{JOB}-config"), ("ServiceAccount", LAUNCHER)),
                *(("Job", LAUNCHER), ("StatefulSet", f"{JOB}-worker")),
            },
            id="v1alpha2",
        ),
        pytest.param(pytorch_job(workers=2), set(), id="pytorch"),
    ],
)
def test_objects_that_operators_make_are_none_that_are_missing(job: Object, made: set[tuple[str, str]]) -> None:
    assert _job(job).creates == {(job["kind"], JOB), *made}


def test_objects_of_the_manifest_are_none_that_are_missing() -> None:
    before, after = (_hook(name, event) for name, event in (("before", "pre-install,pre-upgrade"), ("after", "test")))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}}

    assert _job([secret, before, after, pytorch_job(workers=1)]).creates == {
        ("Secret", "s3"),
        ("ConfigMap", "before"),
        ("PyTorchJob", JOB),
    }


@pytest.mark.parametrize("kind", ["ServiceAccount", "PersistentVolumeClaim"])
@pytest.mark.parametrize(("policy", "is_there"), [("hook-succeeded", False), ("hook-failed", True)])
def test_hook_that_helm_deletes_before_the_pods_is_no_object_of_the_manifest(
    kind: str, policy: str, is_there: bool
) -> None:
    hook = {**_hook("before", "pre-install"), "kind": kind}
    hook["metadata"]["annotations"]["helm.sh/hook-delete-policy"] = policy

    created = _job([hook, pytorch_job(workers=1)]).created

    assert ((kind, "before") in {name for _, name in created.names}) == is_there
    assert bool(created.storage) == (is_there and kind == "PersistentVolumeClaim")


def _hook(name: str, event: str) -> Object:
    metadata = {"name": name, "annotations": {"helm.sh/hook": event}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _templates(part: Any) -> list[Object]:
    """Return every pod template in a resource."""
    if not isinstance(part, dict):
        return []
    own = [part["template"]] if "template" in part else []
    return own + [one for value in part.values() for one in _templates(value)]


def _ports(role: PodRole, field: str) -> list[int]:
    ports = [port for container in role.spec.containers or () for port in container.ports or ()]
    return [number for port in ports if (number := msgspec.structs.asdict(port)[field])]
