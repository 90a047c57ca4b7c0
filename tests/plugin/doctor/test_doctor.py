"""What `doctor` finds in a cluster: as findings, as lines and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import semver
import yaml

from distrain import cli
from distrain.doctor.diagnosis import Diagnosis, diagnose
from distrain.doctor.findings import Finding
from distrain.doctor.survey import Survey, Unread
from tests.plugin.fake_api import FakeApi, write_kubeconfig
from tests.plugin.objects import Object, deployment, namespace, node, pod, tainted

MPI = deployment("mpi-operator", "docker.io/mpioperator/mpi-operator:0.8.0")
TRAINING = deployment("training-operator", "localhost:5000/kubeflow/training-operator:v1-4485b0a")
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
V100 = {"nvidia.com/gpu.product": "Tesla-V100"}
LISTS = ("/apis/apps/v1/deployments", "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/namespaces", "/api/v1/nodes")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Doctor = Callable[..., "Examination"]


class Examination:
    """What one run of `doctor -o json` told."""

    def __init__(self, code: int, answer: Object) -> None:
        self.code = code
        self.answer = answer

    def __getitem__(self, name: str) -> Object:
        (found,) = [finding for finding in self.answer["findings"] if finding["name"] == name]
        return dict(found)

    def says(self, name: str) -> tuple[str, str]:
        return self[name]["state"], self[name]["found"]


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, helm4: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster with two operators and one node of 8 GPUs, in which everybody may do everything."""
    monkeypatch.setenv("HELM_BIN", str(helm4))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    api.serve_group("kubeflow.org", {"v2beta1": ["MPIJob"], "v1": ["PyTorchJob", "TFJob"]})
    api.answers |= dict(zip(LISTS, ([MPI, TRAINING], [], [namespace("team")], [node("a", gpu="8")]), strict=True))
    api.answers |= {"/api/v1/pods": [pod("p", on="a", gpu="3")], "/api/v1/namespaces/team": namespace("team")}
    return api


@pytest.fixture
def examine(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> Doctor:
    def examine(*arguments: str) -> Examination:
        code = cli.run(["doctor", "-o", "json", *arguments])
        printed = capsys.readouterr()
        assert printed.err == ""
        return Examination(code, json.loads(printed.out))

    return examine


def test_cluster_with_everything_is_ready(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["doctor"])

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "ready: MPIJob, PyTorchJob, TFJob and Plain can run in namespace team"
    assert "  ok       mpi-operator: 0.8.0, serves MPIJob v2beta1" in lines
    assert "  ok       nvidia.com/gpu: 5 of 8 GPUs free on 1 node of a model that no label tells" in lines
    assert "  ok       install MPIJob: you may" in lines
    assert "  missing  MXJob: not served; install training-operator" in lines
    # Readable without colour, and nothing to grant.
    assert "\x1b" not in out
    assert "apiVersion:" not in out


def test_nothing_is_written(cluster: FakeApi, examine: Doctor) -> None:
    examine()

    posted = {request for request in cluster.requests if not request.startswith("GET ")}
    assert posted == {f"POST {REVIEWS}", "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"}


def test_caller_who_may_only_list_pods_gets_an_answer(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers |= dict.fromkeys([*LISTS, "/api/v1/namespaces/team"], 403)
    cluster.answers[REVIEWS] = {"status": {"allowed": False}}

    code = cli.run(["doctor"])

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (code, err) == (11, "")
    assert lines[0].startswith("not ready: no job can run in namespace team: install any job: you may not ")
    assert [line.split(":")[0] for line in lines if line.startswith("  unknown")] == [
        *("  unknown  nodes", "  unknown  GPUs", "  unknown  default class", "  unknown  ReadWriteMany"),
        *("  unknown  namespace team", "  unknown  all namespaces"),
    ]
    # Discovery is open to everybody: what runs there is known, if not in which version.
    assert any(
        line.startswith("  ok       mpi-operator: serves MPIJob v2beta1; its version is unknown") for line in lines
    )


def test_what_cannot_be_read_is_no_obstacle(cluster: FakeApi, examine: Doctor) -> None:
    paths = [*LISTS, "/api/v1/namespaces/team", "/version", "/apis/kubeflow.org", "/api/v1/pods", REVIEWS]
    cluster.answers |= dict.fromkeys(paths, 403)

    found = examine()

    assert (found.code, found.answer["ready"]) == (0, True)
    assert {finding["state"] for finding in found.answer["findings"] if finding["name"] != "Helm"} == {"unknown", "ok"}
    assert found.answer["grants"] == []


def test_answer_that_rests_on_what_was_not_read_says_so(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers[REVIEWS] = 403

    assert cli.run(["doctor"]) == 0
    assert capsys.readouterr().out.startswith(
        "ready, as far as can be read: MPIJob, PyTorchJob, TFJob and Plain may run"
    )


def test_free_gpus_are_unknown_without_pods(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/pods"] = 403

    found = examine()["nvidia.com/gpu"]

    assert found["found"].startswith("8 GPUs, how many are free is unknown")
    assert found["details"]["free"] is None


def test_cluster_without_operators_runs_plain_jobs(cluster: FakeApi, examine: Doctor) -> None:
    del cluster.answers["/apis/kubeflow.org"]

    found = examine()

    assert (found.code, found.answer["jobs"]) == (0, ["Plain"])
    assert found["mpi-operator"]["state"] == "missing"
    assert found["mpi-operator"]["next"].startswith("for MPIJob install 0.4.0 or newer")


def test_two_operators_are_told_apart_with_their_versions(examine: Doctor) -> None:
    found = examine()

    assert found.says("mpi-operator") == ("ok", "0.8.0, serves MPIJob v2beta1")
    assert found.says("training-operator") == ("ok", "v1-4485b0a, serves PyTorchJob v1, TFJob v1")
    assert found.answer["jobs"] == ["MPIJob", "PyTorchJob", "TFJob", "Plain"]


def test_rights_to_kinds_that_are_not_served_are_not_asked(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_mpi_jobs()

    names = [finding["name"] for finding in examine().answer["findings"] if finding["section"] == "rights"]

    assert [name for name in names if name.startswith("install ")] == [
        *("install any job", "install MPIJob", "install Plain"),
    ]


def test_mpijob_v1_is_the_training_operators(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve("v1", "MPIJob", "PyTorchJob")

    found = examine()

    assert found["mpi-operator"]["state"] == "missing"
    assert found.says("training-operator") == ("ok", "v1-4485b0a, serves PyTorchJob v1, MPIJob v1")
    assert found.says("MPIJob") == ("ok", "v1")


def test_of_several_versions_under_one_crd_none_is_guessed(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_group("kubeflow.org", {version: ["MPIJob"] for version in ("v1alpha2", "v1", "v2beta1")})

    found = examine()["MPIJob"]

    assert (found["state"], found["details"]) == ("unknown", {"versions": ["v2beta1", "v1", "v1alpha2"]})
    assert found["found"] == "v2beta1, v1, v1alpha2 under one CRD, of which the operator runs one"
    assert found["next"] == "set job.apiVersion to that of its image"


@pytest.mark.parametrize(
    ("deployments", "state", "words"),
    [
        pytest.param(
            [deployment("mpi-operator", "mpi-operator:0.8.0", ready=0)],
            "missing",
            "0.8.0, serves MPIJob v2beta1, but no pod of Deployment mpi-operator in namespace system is ready",
            id="not-ready",
        ),
        pytest.param(
            [deployment("web", "nginx:1")],
            "unknown",
            "serves MPIJob v2beta1, but no Deployment of all namespaces runs mpi-operator",
            id="crd-alone",
        ),
        pytest.param(
            [deployment("mpi", "example.org:5000/mirror/mpi-operator@sha256:0123456789abcdef")],
            "ok",
            "sha256:0123456789ab, serves MPIJob v2beta1",
            id="digest",
        ),
    ],
)
def test_operator_that_does_not_run_is_told(
    cluster: FakeApi, examine: Doctor, deployments: list[Object], state: str, words: str
) -> None:
    cluster.answers[LISTS[0]] = deployments

    found = examine()

    assert found.says("mpi-operator") == (state, words)
    assert found["MPIJob"]["state"] == state


def test_gang_schedulers_and_monitoring_are_found(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_group("kueue.x-k8s.io", {"v1beta1": ["LocalQueue"]})
    cluster.serve_group("scheduling.x-k8s.io", {"v1alpha1": ["PodGroup"]})
    cluster.serve_group("scheduling.volcano.sh", {"v1beta1": ["PodGroup"]})
    cluster.serve_group("monitoring.coreos.com", {"v1": ["PodMonitor"]})
    images = ["kueue/kueue:v0.13.1", "scheduler-plugins/kube-scheduler:v0.33.5", "volcanosh/vc-scheduler:v1.12.0"]
    images.append("quay.io/prometheus-operator/prometheus-operator:v0.80.0")
    cluster.answers[LISTS[0]] = [deployment(f"d{number}", image) for number, image in enumerate(images)]

    found = examine()

    names = ("kueue", "scheduler-plugins", "volcano", "prometheus-operator")
    assert [found[name]["details"]["version"] for name in names] == ["v0.13.1", "v0.33.5", "v1.12.0", "v0.80.0"]


def test_gpus_are_counted_by_model(cluster: FakeApi, examine: Doctor) -> None:
    nodes = [node("a", gpu="8", labels=A100), node("b", gpu="8", labels=A100), node("c", gpu="4", labels=V100)]
    cluster.answers["/api/v1/nodes"] = [*nodes, node("d", {"amd.com/gpu": "2"}), node("e", gpu="0")]

    found = [item["details"] for item in examine().answer["findings"] if item["name"].endswith("/gpu")]

    assert [tuple(details.values()) for details in found] == [
        ("amd.com/gpu", "", 1, 2, 2),
        ("nvidia.com/gpu", "NVIDIA-A100-SXM4-80GB", 2, 16, 13),
        ("nvidia.com/gpu", "Tesla-V100", 1, 4, 4),
    ]


def test_taints_of_gpu_nodes_are_named(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [tainted(node("a", gpu="8"), "nvidia.com/gpu=present:NoSchedule")]

    found = examine()["nvidia.com/gpu"]

    assert found["found"].endswith("; taints on them: nvidia.com/gpu:NoSchedule")
    assert found["next"] == "tolerate them with workers.tolerations"


def test_gpus_of_a_cordoned_node_are_not_free(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", gpu="8"), node("b", gpu="8", cordoned=True)]

    found = examine()

    assert found["nvidia.com/gpu"]["details"]["free"] == 5
    assert found.says("nodes") == ("ok", "1 of 2 nodes take pods")


def test_cluster_whose_nodes_all_refuse_pods_is_not_ready(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", gpu="8", cordoned=True)]

    found = examine()

    assert (found.code, found.answer["jobs"]) == (11, [])
    assert found.says("nodes") == ("missing", "0 of 1 node take pods")


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(A100, id="model"),
        pytest.param({"nvidia.com/gpu.present": "true"}, id="feature-discovery"),
        pytest.param({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, id="pci"),
    ],
)
def test_missing_device_plugin_is_told(cluster: FakeApi, examine: Doctor, labels: dict[str, str]) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", labels=labels), node("b")]

    found = examine()

    missing = found["device plugin"]
    assert (missing["state"], missing["details"]) == ("missing", {"nodes": ["a"]})
    assert "and none to offer: a" in missing["found"]
    assert missing["next"].endswith("`kubectl get pods --all-namespaces --field-selector spec.nodeName=a`")
    # Jobs on CPUs can run.
    assert found.code == 0


def test_cluster_without_gpus_is_told_how_to_train(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", labels={"nvidia.com/gpu.present": "false"})]

    found = examine()

    assert found["GPUs"]["state"] == "missing"
    assert found["GPUs"]["next"] == "add GPU nodes, or train on CPUs with workers.gpus=0"
    assert not [finding for finding in found.answer["findings"] if finding["name"] == "device plugin"]


def test_storage_classes_are_sorted_by_what_they_are_for(cluster: FakeApi, examine: Doctor) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    gp3 = {"metadata": {"name": "gp3", "annotations": default}, "provisioner": "ebs.csi.aws.com"}
    ceph = {"metadata": {"name": "fs"}, "provisioner": "rook-ceph.cephfs.csi.ceph.com"}
    cluster.answers[LISTS[1]] = [gp3, ceph]

    found = examine()

    assert found.says("default class") == ("ok", "gp3 (ebs.csi.aws.com)")
    assert found.says("ReadWriteMany") == ("ok", "fs (rook-ceph.cephfs.csi.ceph.com)")


def test_cluster_without_storage_classes_is_told_to_use_s3(examine: Doctor) -> None:
    found = examine()

    assert found.says("default class") == ("missing", "there is none")
    assert "go to S3" in found["ReadWriteMany"]["next"]
    assert found.code == 0


@pytest.mark.parametrize(
    ("version", "level", "state"),
    [
        pytest.param("v1", "restricted", "missing", id="v1-restricted"),
        pytest.param("v1alpha2", "restricted", "missing", id="v1alpha2-restricted"),
        pytest.param("v1", "baseline", "ok", id="v1-baseline"),
        pytest.param("v2beta1", "restricted", "ok", id="v2beta1-restricted"),
    ],
)
def test_restricted_namespace_refuses_mpijobs_with_an_init_container(
    cluster: FakeApi, examine: Doctor, version: str, level: str, state: str
) -> None:
    cluster.serve(version, "MPIJob")
    cluster.answers["/api/v1/namespaces/team"] = namespace("team", level)

    found = examine()

    assert found["MPIJob"]["state"] == state
    assert found["namespace team"]["found"].startswith(f"enforces {level}")
    assert ("job.elastic=false" in found["namespace team"]["next"]) == (level == "restricted")


def test_namespaces_that_enforce_pod_security_are_listed(cluster: FakeApi, examine: Doctor) -> None:
    many = [namespace(f"n{number}", "restricted") for number in range(8)]
    cluster.answers["/api/v1/namespaces"] = [*many, namespace("base", "baseline"), namespace("free")]

    found = examine()["all namespaces"]

    assert found["found"] == "baseline: base; restricted: n0, n1, n2, n3, n4 and 3 more"
    assert found["details"]["levels"]["restricted"] == [f"n{number}" for number in range(8)]


def test_namespace_that_is_not_there_is_an_obstacle(examine: Doctor) -> None:
    found = examine("-n", "nowhere")

    assert found.code == 11
    assert found.says("namespace nowhere") == ("missing", "there is none of this name")


@pytest.mark.parametrize(
    ("denied", "kind", "rule"),
    [
        pytest.param(
            "create mpijobs.kubeflow.org",
            "Role",
            {"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["create"]},
            id="create-mpijobs",
        ),
        pytest.param(
            "get pods/log", "Role", {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}, id="subresource"
        ),
        pytest.param(
            "list pods everywhere",
            "ClusterRole",
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
            id="cluster-wide",
        ),
    ],
)
def test_missing_right_comes_with_the_yaml_that_grants_exactly_it(
    cluster: FakeApi, capsys: pytest.CaptureFixture[str], denied: str, kind: str, rule: Object
) -> None:
    cluster.denied = {denied}

    code = cli.run(["doctor"])

    out = capsys.readouterr().out
    comment, _, text = out.partition("# An admin grants")[2].partition("\n")
    role, binding = yaml.safe_load_all(text)
    where = {"namespace": "team"} if kind == "Role" else {}
    assert code == 0
    assert "kubectl apply -f -" in comment
    assert (role["kind"], role["rules"]) == (kind, [rule])
    assert (binding["kind"], binding["roleRef"]["kind"]) == (f"{kind}Binding", kind)
    assert role["metadata"] == binding["metadata"] == {"name": binding["roleRef"]["name"], **where}
    assert binding["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]


def test_kind_that_the_caller_may_not_install_is_left_out(cluster: FakeApi, examine: Doctor) -> None:
    cluster.denied = {"create mpijobs.kubeflow.org", "patch mpijobs.kubeflow.org"}

    found = examine()

    assert found.answer["jobs"] == ["PyTorchJob", "TFJob", "Plain"]
    assert found.says("install MPIJob") == ("missing", "you may not create/patch mpijobs.kubeflow.org")
    assert found["MPIJob"]["next"] == 'see "install MPIJob" above'


def test_caller_who_may_not_check_can_still_install(cluster: FakeApi, examine: Doctor) -> None:
    cluster.denied = {"list nodes everywhere"}

    found = examine()

    assert found.code == 0
    assert found.says("helm distrain check") == ("missing", "you may not list nodes")


def test_caller_without_helms_secrets_can_install_nothing(cluster: FakeApi, examine: Doctor) -> None:
    cluster.denied = {"create secrets"}

    found = examine()

    assert (found.code, found.answer["jobs"]) == (11, [])
    assert found["install any job"]["state"] == "missing"


def test_unreachable_cluster_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "https://127.0.0.1:1")))

    assert cli.run(["doctor"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("distrain: the cluster at https://127.0.0.1:1 cannot be reached: ")


def test_credentials_that_are_refused_are_one_line(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers["/version"] = 401

    assert cli.run(["doctor"]) == 3
    assert "does not accept your credentials" in capsys.readouterr().err


def test_values_are_no_arguments_of_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "-f", "values.yaml"]) == 2
    assert capsys.readouterr().err.startswith("distrain: -f: there is no such flag")


def test_missing_helm_is_a_finding(cluster: FakeApi, examine: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_BIN", "/no/such/helm")

    found = examine()

    assert found.code == 11
    assert found["Helm"]["state"] == "missing"
    assert found["Helm"]["found"].startswith('helm: "/no/such/helm" is not on the PATH; install Helm')


@pytest.mark.parametrize(
    ("helm", "state"),
    [
        *(("3.16.4", "missing"), ("3.20.9", "unknown"), ("3.21.0", "ok"), ("3.22.1", "ok")),
        *(("4.1.9", "unknown"), ("4.2.0", "ok"), ("4.3.0", "ok"), ("5.0.0", "unknown")),
    ],
)
def test_helm_older_than_the_tested_ones_is_told(helm: str, state: str) -> None:
    found = _found(diagnose(_survey(), semver.Version.parse(helm)), "Helm")

    assert (found.state, bool(found.next)) == (state, state != "ok")


@pytest.mark.parametrize(
    ("version", "state"),
    [
        *(("v1.34.4", "ok"), ("v1.34.1-eks-1234", "ok"), ("v1.33.9+rke2r1", "unknown"), ("v1.35.0", "unknown")),
        *(("v1.24.17", "missing"), ("nonsense", "missing")),
    ],
)
def test_kubernetes_that_was_not_tested_is_told(version: str, state: str) -> None:
    found = _found(diagnose(_survey(version=version), semver.Version(4, 2, 0)), "Kubernetes")

    assert (found.state, bool(found.next)) == (state, state != "ok")


def test_same_cluster_gives_the_same_lines(cluster: FakeApi, examine: Doctor) -> None:
    cluster.denied = {"create mpijobs.kubeflow.org", "get pods/log", "list nodes everywhere"}

    assert examine().answer == examine().answer


def _survey(**parts: Any) -> Survey:
    """A cluster of which nothing could be read but the parts given."""
    unread = Unread("you may not")
    names = ("version", "served", "deployments", "nodes", "snapshot", "storage_classes", "namespaces", "own", "user")
    return Survey(**{**dict.fromkeys([*names, "allowed"], unread), "namespace": "team", **parts})


def _found(diagnosis: Diagnosis, name: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.name == name)
