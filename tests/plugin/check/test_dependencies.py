"""Test for which roles an object is missing, and which of the missing objects a controller may still create."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from distrain.check.report import Report
from tests.plugin.check.judging import job_of
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, batch_job, mpi_job, namespace, node, of_another_tool, template

ROOM = [node("a")]
SECRET = {"envFrom": [{"secretRef": {"name": "s3"}}]}
CONFIG = {"envFrom": [{"configMapRef": {"name": "s3"}}]}
TEAM = "/api/v1/namespaces/team"
KUEUE = "kueue.x-k8s.io"


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path) -> Cluster:
    """A cluster with one node, and with a namespace without Secrets, ConfigMaps and ServiceAccounts."""
    lists = ("/api/v1/pods", f"{TEAM}/resourcequotas", f"{TEAM}/limitranges")
    api.answers |= {"/api/v1/nodes": ROOM, TEAM: namespace("team"), **{path: [] for path in lists}}
    return connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))


def _check(cluster: Cluster, *documents: Object) -> Report:
    return check(cluster, job_of(*documents), "team")


def _job(name: str, container: Object, account: str = "default", **spec: Any) -> Object:
    pods = template(name, {}, {"containers": [{"name": "main", **container}], "serviceAccountName": account})
    return of_another_tool(batch_job(name, pods, **spec))


def _custom(kind: str, api_version: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "s3"}, "spec": {}}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(_job("j", SECRET, parallelism=0), id="secret"),
        pytest.param(_job("j", {}, "gone", parallelism=0), id="service-account"),
    ],
)
def test_role_without_pods_needs_no_object(cluster: Cluster, job: Object) -> None:
    assert _check(cluster, job, _job("k", {})).verdict == "fits"


@pytest.mark.parametrize(
    ("group", "words"),
    [
        pytest.param(404, "the queue team-a: the cluster has no Kueue, so the Job starts at once and waits", id="none"),
        pytest.param(403, "whether Kueue is here and has the queue team-a; without Kueue, the Job", id="unreadable"),
        pytest.param({"versions": [{"groupVersion": f"{KUEUE}/v1beta1"}]}, "whether Kueue has the queue", id="there"),
    ],
)
def test_queue_of_kueue_is_not_judged(api: FakeApi, cluster: Cluster, group: Object | int, words: str) -> None:
    api.answers[f"/apis/{KUEUE}"] = group
    api.answers[f"/apis/{KUEUE}/v1beta1"] = {"resources": [{"name": "localqueues", "kind": "LocalQueue"}]}
    job = _job("j", {})
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}

    assert any(line.startswith(words) for line in _check(cluster, job).unseen)
    assert not any("queue" in line for line in _check(cluster, _job("j", {})).unseen)


def test_nodes_of_the_cluster_that_runs_the_job_are_not_judged(cluster: Cluster) -> None:
    replicas = {"Worker": {"replicas": 1, "template": _job("j", {})["spec"]["template"]}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}}
    elsewhere = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}, "pytorchReplicaSpecs": replicas}
    here = {"runPolicy": {"managedBy": "kubeflow.org/training-operator"}, "pytorchReplicaSpecs": replicas}

    name = "kueue.x-k8s.io/multikueue"
    words = f"the nodes of the cluster in which {name} will run the job; those judged here get no pod of it"
    assert words in _check(cluster, {**job, "spec": elsewhere}).unseen
    assert words not in _check(cluster, {**job, "spec": here}).unseen


def test_missing_object_is_that_of_the_role_that_needs_it(cluster: Cluster) -> None:
    answer = _check(cluster, _job("j", {}, "gone"), _job("k", {}, parallelism=2))

    assert answer.verdict == "impossible"
    found = "there is no ServiceAccount gone in namespace team"
    assert answer.next == f"j: {found}, without which its pods do not start. Create it."


@pytest.mark.parametrize(
    "maker",
    [
        pytest.param(_custom("SealedSecret", "bitnami.com/v1alpha1"), id="sealed-secret"),
        pytest.param(_custom("ExternalSecret", "external-secrets.io/v1"), id="external-secret"),
        pytest.param(_custom("SecretProviderClass", "secrets-store.csi.x-k8s.io/v1"), id="secret-provider-class"),
    ],
)
def test_object_that_a_controller_may_create_is_not_judged(cluster: Cluster, maker: Object) -> None:
    for name, container in (("Secret", SECRET), ("ConfigMap", CONFIG)):
        answer = _check(cluster, maker, _job("j", container))

        words = f"whether {maker['kind']} s3 of the manifest creates {name} s3, which is not there"
        assert answer.verdict == "fits"
        assert words in answer.unseen


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_custom("NetworkPolicy", "networking.k8s.io/v1"), id="kubernetes"),
        pytest.param(_custom("PodMonitor", "monitoring.coreos.com/v1"), id="known-kind"),
    ],
)
def test_object_that_no_controller_creates_is_missing(cluster: Cluster, other: Object) -> None:
    assert _check(cluster, other, _job("j", SECRET)).verdict == "impossible"


def test_no_controller_creates_service_accounts(cluster: Cluster) -> None:
    item = _custom("SealedSecret", "bitnami.com/v1alpha1")

    assert _check(cluster, item, _job("j", {}, "gone")).verdict == "impossible"


PULLS: Object = {"imagePullSecrets": [{"name": "hub"}, {"name": "mirror"}]}


@pytest.mark.parametrize(
    ("answer", "unseen"),
    [
        pytest.param(404, "whether nodes can pull the image without Secret hub (imagePullSecrets), which is not there",
                     id="missing"),
        pytest.param(403, "Secret hub of namespace team (you may not read it)", id="not-readable"),
        pytest.param({"metadata": {"name": "hub"}}, "", id="there"),
    ],
)  # fmt: skip
def test_pull_secret_that_may_be_missing_is_not_judged(
    api: FakeApi, cluster: Cluster, answer: Object | int, unseen: str
) -> None:
    api.serve("v2beta1", "MPIJob")
    api.answers[f"{TEAM}/secrets/hub"] = answer
    api.answers[f"{TEAM}/secrets/mirror"] = {"metadata": {"name": "mirror"}}

    report = _check(cluster, mpi_job(gpus=0, worker=PULLS))

    assert (report.verdict, report.unseen) == ("fits", [unseen] if unseen else [])


def test_pull_secret_that_a_container_needs_is_refused(cluster: Cluster) -> None:
    pods = template("a", {}, {"containers": [{"name": "main", **SECRET}], "imagePullSecrets": [{"name": "s3"}]})

    report = _check(cluster, of_another_tool(batch_job("a", pods)))

    assert (report.verdict, report.unseen) == ("impossible", [])


def test_pull_secret_of_the_manifest_is_not_missing(api: FakeApi, cluster: Cluster) -> None:
    api.serve("v2beta1", "MPIJob")
    made = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}} for name in ("hub", "mirror")]

    report = _check(cluster, *made, mpi_job(gpus=0, worker=PULLS))

    assert (report.verdict, report.unseen) == ("fits", [])
