"""Test that quotas also count objects other than pods, if a manifest or an operator creates such objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from distrain.check.report import Report
from distrain.workload.manifest import from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.check.judging import judged
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, mpi_job, namespace, node, pod

ROOM = [node("a", gpu="8")]
TEAM = "/api/v1/namespaces/team"


def _made(kind: str, name: str, version: str = "v1", where: str = "", **more: Any) -> Object:
    metadata = {"name": name, **({"namespace": where} if where else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _template(**spec: Any) -> Object:
    return {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": [{"name": "main", "image": "i"}], **spec}}


JOB = _made("Job", "train", "batch/v1", spec={"template": _template(restartPolicy="Never")})
TWO = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "resources": {"requests": {"storage": "2Gi"}}}
SELECTOR = {"matchLabels": {"app": "train"}}
SET = _made("StatefulSet", "train", "apps/v1", spec={"selector": SELECTOR, "template": _template()})
PORTS = [{"port": 1}, {"port": 2, "nodePort": 30000}]


def _service(kind: str, **spec: Any) -> Object:
    return _made("Service", "s", spec={"type": kind, "ports": PORTS, **spec})


def _quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    status = {"hard": hard, "used": used or {}}
    metadata = {"name": "few", "namespace": "team"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}, "status": status}


def _said(quota: Object, *items: Object, running: list[Object] | None = None, release: str | None = None) -> Report:
    job = from_manifest(yaml_writer.dump(*items), "--manifest", judges_all=True)
    others = [_made("Namespace", "blue"), _made("PersistentVolumeClaim", "other", where="blue")]
    return judged(job, ROOM, running or [], [quota, *others], release)


@pytest.mark.parametrize(
    ("name", "items", "asked"),
    [
        pytest.param("count/jobs.batch", [JOB], 1, id="job"),
        pytest.param("count/jobs.batch", [mpi_job()], 1, id="job-of-the-operator"),
        pytest.param("count/statefulsets.apps", [SET], 1, id="stateful-set"),
        pytest.param("count/mpijobs.kubeflow.org", [mpi_job()], 1, id="mpijob"),
        pytest.param("configmaps", [JOB, _made("ConfigMap", "c"), _made("ConfigMap", "d")], 2, id="configmaps"),
        pytest.param("count/configmaps", [mpi_job()], 1, id="configmap-of-the-operator"),
        pytest.param("secrets", [JOB, _made("Secret", "s")], 1, id="secret"),
        pytest.param("count/secrets", [mpi_job()], 1, id="secret-of-the-operator"),
        pytest.param("services", [JOB, _service("ClusterIP")], 1, id="service"),
        pytest.param("services.nodeports", [JOB, _service("NodePort")], 2, id="node-ports"),
        pytest.param("services.nodeports", [JOB, _service("LoadBalancer")], 2, id="node-ports-of-a-balancer"),
        pytest.param(
            "services.nodeports", [JOB, _service("LoadBalancer", allocateLoadBalancerNodePorts=False)], 1, id="own-port"
        ),
        pytest.param("services.loadbalancers", [JOB, _service("LoadBalancer")], 1, id="load-balancer"),
        pytest.param("count/serviceaccounts", [JOB, _made("ServiceAccount", "a")], 1, id="service-account"),
        pytest.param(
            "count/networkpolicies.networking.k8s.io",
            [JOB, _made("NetworkPolicy", "p", "networking.k8s.io/v1")],
            1,
            id="plural-of-y",
        ),
    ],
)
def test_quota_counts_what_the_manifest_creates(name: str, items: list[Object], asked: int) -> None:
    enough, less, in_use = (
        _said(_quota({name: str(hard)}, {name: str(used)}), *items)
        for hard, used in ((asked, 0), (asked - 1, 0), (asked, 1))
    )

    assert (enough.verdict, less.verdict, in_use.verdict) == ("fits", "impossible", "busy")
    assert [each.reason for each in less.reasons] == [
        f"exceeded quota: few, requested: {name}={asked}, used: {name}=0, limited: {name}={asked - 1}"
    ]
    assert (enough.unseen, less.unseen) == ([], [])
    assert in_use.next.endswith("Remove other objects of the namespace, or ask for less.")


def test_objects_with_generated_names_count_each() -> None:
    secrets = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "key-"}}] * 2

    answer = _said(_quota({"secrets": "1"}), JOB, *secrets)

    assert answer.verdict == "impossible"
    assert "requested: secrets=2" in answer.reasons[0].reason
    assert answer.assumed == [
        "names of objects that have only a generateName, Secret key-x0001 and Secret key-x0002: "
        "the API server will choose others"
    ]


@pytest.mark.parametrize(
    ("hard", "items"),
    [
        pytest.param({"configmaps": "0"}, [JOB, _made("ConfigMap", "c", where="blue")], id="of-another-namespace"),
        pytest.param({"services.nodeports": "0"}, [JOB, _service("ClusterIP")], id="service-without-node-ports"),
        pytest.param({"secrets": "0", "count/cronjobs.batch": "0"}, [JOB], id="none"),
    ],
)
def test_quota_of_other_objects_is_judged_and_not_named(hard: Object, items: list[Object]) -> None:
    answer = _said(_quota(hard), *items)

    assert (answer.verdict, answer.unseen) == ("fits", [])


@pytest.mark.parametrize(
    ("hard", "item"),
    [
        pytest.param({"configmaps": "0"}, _made("ConfigMap", "c", where="blue"), id="config-map"),
        pytest.param(
            {"requests.storage": "1Gi"}, _made("PersistentVolumeClaim", "p", where="blue", spec=TWO), id="claim"
        ),
    ],
)
def test_quota_of_a_namespace_without_pods_of_the_job_is_judged(hard: Object, item: Object) -> None:
    quota = _quota(hard)
    quota["metadata"]["namespace"] = "blue"
    ((name, _),) = hard.items()

    answer = _said(quota, JOB, item)

    assert (answer.verdict, answer.unseen) == ("impossible", [])
    assert answer.reasons[0].reason.startswith(f"exceeded quota: few, requested: {name}=")


def test_objects_of_the_cluster_are_in_no_namespace() -> None:
    there = _made("Job", "train", "batch/v1", where="blue", spec=JOB["spec"])
    role = _made("ClusterRole", "r", "rbac.authorization.k8s.io/v1")

    answer = _said(_quota({"count/clusterroles.rbac.authorization.k8s.io": "0"}), there, role)

    assert (answer.verdict, answer.unseen) == ("fits", [])


@pytest.mark.parametrize(
    ("hard", "items", "rest"),
    [
        pytest.param({"services": "9"}, [mpi_job()], "services", id="services-of-the-operator"),
        pytest.param({"count/controllerrevisions.apps": "9"}, [SET], "count/controllerrevisions.apps", id="others"),
    ],
)
def test_what_a_quota_counts_of_unknown_objects_is_named(hard: Object, items: list[Object], rest: str) -> None:
    answer = _said(_quota(hard), *items)

    assert (answer.verdict, answer.unseen) == ("fits", [f"ResourceQuota few: {rest}"])


def test_objects_of_a_release_that_runs_are_counted_already() -> None:
    own = pod("p", on="a")
    own["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    quota = _quota({"configmaps": "1"}, {"configmaps": "1"})
    items = JOB, _made("ConfigMap", "c")

    assert _said(quota, *items, running=[own], release="run1").verdict == "fits"
    assert _said(quota, *items, running=[own]).verdict == "busy"


@pytest.mark.parametrize("name", ["configmaps", "secrets", "count/jobs.batch"])
def test_objects_of_the_operator_end_with_the_job_that_is_replaced(name: str) -> None:
    launcher, worker = pod("l", on="a"), pod("w", on="a")
    for own, version, kind in ((launcher, "batch/v1", "Job"), (worker, "kubeflow.org/v2beta1", "MPIJob")):
        own["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
        own["metadata"]["ownerReferences"] = [{"apiVersion": version, "kind": kind, "name": "old", "uid": kind}]
    quota = _quota({name: "1"}, {name: "1"})

    assert _said(quota, mpi_job(), running=[launcher, worker], release="run1").verdict == "fits"
    assert _said(quota, mpi_job(), running=[launcher, worker]).verdict == "busy"


@pytest.mark.parametrize(
    ("there", "verdict"), [pytest.param({}, "fits", id="there"), pytest.param(404, "busy", id="new")]
)
def test_object_that_exists_is_counted_already(api: FakeApi, tmp_path: Path, there: Object | int, verdict: str) -> None:
    quota = _quota({"secrets": "1"}, {"secrets": "1"})
    api.answers |= {"/api/v1/nodes": ROOM, "/api/v1/pods": [], TEAM: namespace("team"), f"{TEAM}/limitranges": []}
    api.answers |= {f"{TEAM}/resourcequotas": [quota], "/apis/scheduling.k8s.io/v1/priorityclasses": []}
    api.answers[f"{TEAM}/secrets/key"] = {"metadata": {"name": "key"}} if isinstance(there, dict) else there
    job = from_manifest(yaml_writer.dump(JOB, _made("Secret", "key"), _made("ConfigMap", "c")), "--manifest")

    answer = check(connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team")), job, "team")

    assert (answer.verdict, answer.unseen) == (verdict, [])
    # The quota counts only Secrets, so the check does not ask whether the manifest's ConfigMap exists.
    assert not any("/configmaps/" in request for request in api.requests)


def test_quota_of_storage_is_judged_for_a_job_without_claims() -> None:
    answer = _said(_quota({"requests.storage": "1", "persistentvolumeclaims": "0", "pods": "9"}), JOB)

    assert (answer.verdict, answer.unseen) == ("fits", [])


def test_claim_that_exists_and_that_no_pod_uses_is_counted_already(api: FakeApi, tmp_path: Path) -> None:
    claim = _made("PersistentVolumeClaim", "p", where="team", spec=TWO)
    quota = _quota({"persistentvolumeclaims": "1"}, {"persistentvolumeclaims": "1"})
    api.answers |= {"/api/v1/nodes": ROOM, "/api/v1/pods": [], TEAM: namespace("team"), f"{TEAM}/limitranges": []}
    api.answers |= {f"{TEAM}/resourcequotas": [quota], "/apis/scheduling.k8s.io/v1/priorityclasses": []}
    api.answers |= {f"{TEAM}/persistentvolumeclaims": [claim], "/api/v1/persistentvolumes": []}
    api.answers["/apis/storage.k8s.io/v1/storageclasses"] = []
    job = from_manifest(yaml_writer.dump(JOB, claim), "--manifest")

    assert check(connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team")), job, "team").verdict == "fits"
