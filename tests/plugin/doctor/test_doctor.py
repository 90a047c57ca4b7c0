"""Test `doctor` on a whole cluster: findings, lines and exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import semver
import yaml

from distrain import cli
from distrain.doctor.diagnosis import Diagnosis, diagnose
from distrain.doctor.findings import Finding
from distrain.doctor.survey import Survey, Unread
from tests.plugin.doctor.examining import LISTS, Doctor
from tests.plugin.fake_api import FakeApi, write_kubeconfig
from tests.plugin.objects import Object, namespace

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_cluster_with_everything_is_ready(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["doctor"])

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "ready: MPIJob, PyTorchJob, TFJob and Plain can run in namespace team"
    assert "  ok       mpi-operator: 0.8.0, serves MPIJob v2beta1" in lines
    assert "  ok       nvidia.com/gpu: 5 of 8 GPUs free on 1 node; no label names their model" in lines
    assert "  ok       install MPIJob: you may" in lines
    assert "  absent   MXJob: not served; install training-operator" in lines
    assert "  absent   kueue: none of its APIs is served; needed only for gang.scheduler=kueue" in lines
    # Nothing is wrong with this cluster, although it lacks parts that only some jobs need.
    assert not [line for line in lines if line.startswith("  missing")]
    # `doctor` must print no colours and no YAML of RBAC objects here.
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
    assert lines[0].startswith("not ready: you may not install a job in namespace team: install any job: you may not ")
    assert [line.split(":")[0] for line in lines if line.startswith("  unknown")] == [
        *("  unknown  nodes", "  unknown  GPUs", "  unknown  default class", "  unknown  ReadWriteMany"),
        *("  unknown  namespace team", "  unknown  all namespaces"),
    ]
    # Every user may read the discovery API. The discovery API shows which operators run, but not always their versions.
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


def test_verdict_that_depends_on_unread_objects_says_so(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers[REVIEWS] = 403

    assert cli.run(["doctor"]) == 0
    assert capsys.readouterr().out.startswith(
        "ready, as far as can be read: MPIJob, PyTorchJob, TFJob and Plain may run"
    )


def test_rights_to_kinds_that_are_not_served_are_not_asked(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_mpi_jobs()

    names = [finding["name"] for finding in examine().answer["findings"] if finding["section"] == "rights"]

    assert [name for name in names if name.startswith("install ")] == [
        *("install any job", "install MPIJob", "install Plain"),
    ]


def test_storage_classes_are_sorted_by_use(cluster: FakeApi, examine: Doctor) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    gp3 = {"metadata": {"name": "gp3", "annotations": default}, "provisioner": "ebs.csi.aws.com"}
    ceph = {"metadata": {"name": "fs"}, "provisioner": "rook-ceph.cephfs.csi.ceph.com"}
    cluster.answers[LISTS[1]] = [gp3, ceph]

    found = examine()

    assert found.says("default class") == ("ok", "gp3 (ebs.csi.aws.com)")
    assert found.says("ReadWriteMany") == ("ok", "fs (rook-ceph.cephfs.csi.ceph.com)")


def test_cluster_without_storage_classes_is_told_to_use_s3(examine: Doctor) -> None:
    found = examine()

    assert found.says("default class") == ("absent", "there is none")
    assert found["ReadWriteMany"]["next"].startswith("needed only for data and checkpoints on a volume: use S3, or ")
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


def test_snapshot_is_no_argument_of_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--snapshot", "nodes.json"]) == 2
    assert capsys.readouterr().err.startswith("distrain: --snapshot: there is no such flag")


def test_missing_helm_is_a_finding(cluster: FakeApi, examine: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_BIN", "/no/such/helm")

    found = examine()

    assert found.code == 11
    assert found["Helm"]["state"] == "missing"
    assert found["Helm"]["found"].startswith("HELM_BIN: /no/such/helm is not an executable program")


@pytest.mark.parametrize(
    ("helm", "state"),
    [
        *(("3.16.4", "missing"), ("3.20.9", "unknown"), ("3.21.0", "ok"), ("3.22.1", "ok")),
        *(("4.1.9", "unknown"), ("4.2.0", "ok"), ("4.3.0", "ok"), ("5.0.0", "unknown")),
    ],
)
def test_helm_older_than_the_tested_ones_is_reported(helm: str, state: str) -> None:
    found = _found(diagnose(_survey(), semver.Version.parse(helm)), "Helm")

    assert (found.state, bool(found.next)) == (state, state != "ok")


@pytest.mark.parametrize(
    ("version", "state"),
    [
        *(("v1.34.4", "ok"), ("v1.34.1-eks-1234", "ok"), ("v1.33.9+rke2r1", "unknown"), ("v1.35.0", "unknown")),
        *(("v1.24.17", "missing"), ("nonsense", "missing")),
    ],
)
def test_kubernetes_that_was_not_tested_is_reported(version: str, state: str) -> None:
    found = _found(diagnose(_survey(version=version), semver.Version(4, 2, 0)), "Kubernetes")

    assert (found.state, bool(found.next)) == (state, state != "ok")


def test_same_cluster_gives_the_same_lines(cluster: FakeApi, examine: Doctor) -> None:
    cluster.denied = {"create mpijobs.kubeflow.org", "get pods/log", "list nodes everywhere"}

    assert examine().answer == examine().answer


def _survey(**parts: Any) -> Survey:
    """Return what `doctor` knows about a cluster.

    It has read the given parts of the cluster, and was not allowed to read the others.
    """
    unread = Unread("you may not")
    names = ("version", "served", "deployments", "nodes", "state", "storage_classes", "namespaces", "own", "user")
    return Survey(**{**dict.fromkeys([*names, "allowed"], unread), "namespace": "team", "kubectl_flags": "", **parts})


def _found(diagnosis: Diagnosis, name: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.name == name)
