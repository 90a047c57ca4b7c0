"""Test that a check of a snapshot gives the same answer as a live check, so the snapshot contains all that it needs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import Target
from distrain.check import live_cluster
from distrain.check.report import Report, report
from distrain.check.snapshot import snapshot_file
from distrain.check.snapshot.judged_kinds import JUDGED
from distrain.check.snapshot.snapshot_writer import Written, write
from distrain.errors import ForbiddenError
from distrain.pods import pods_protobuf
from distrain.pods.counted_pod import CountedPod
from distrain.pods.pod_encoding import encoded
from distrain.pods.pod_requests import held
from distrain.scheduler.node_ports import host_ports
from distrain.workload.manifest import Job, from_manifest
from lab.static_api import protobuf
from tests.plugin.check.judging import chart_job
from tests.plugin.check.random_clusters import random_case
from tests.plugin.check.serving import serve
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, namespace, node, pod, pods

TEAM = "/api/v1/namespaces/team"


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path) -> Cluster:
    return connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))


def _kind(kind: str, item: Object) -> Object:
    return {**item, "kind": kind}


def _small() -> list[Object]:
    return [_kind("Node", node("a", gpu="8")), _kind("Namespace", namespace("team"))]


def _taken(cluster: Cluster) -> tuple[Written, bytes]:
    file = io.BytesIO()
    return write(cluster, file, "team"), file.getvalue()


def _judged(content: bytes, job: Job) -> Report:
    return report(*snapshot_file.examined(snapshot_file.contents(content), job, "team"))


def _policies(seed: int) -> list[Object]:
    """For every second seed, return a quota and a LimitRange in the gang's namespace."""
    metadata = {"name": "policy", "namespace": "team"}
    hard = {"pods": str(seed % 7 + 1), "requests.cpu": str(seed % 11 + 1)}
    quota = {"metadata": metadata, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"pods": str(seed % 3)}}}
    limits = [{"type": "Container", "defaultRequest": {"memory": "64Mi"}, "max": {"cpu": "4"}}]
    found = [_kind("ResourceQuota", quota), _kind("LimitRange", {"metadata": metadata, "spec": {"limits": limits}})]
    return found if seed % 2 else []


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 220), marks=pytest.mark.full)], ids=str)
def test_snapshot_gives_the_answer_of_the_live_cluster(
    api: FakeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, seeds: Sequence[int]
) -> None:
    # Normally, a live check does not read the pods of unusable nodes, and says so in its report. A snapshot contains
    # the pods of all nodes. To give the same report, the live check must read all pods here.
    monkeypatch.setattr("distrain.check.live_cluster.candidate_nodes", lambda job, nodes: None)
    for seed in seeds:
        # For a quota that the manifest creates, the check would need fields of other pods that a snapshot leaves out.
        # So the manifest creates none.
        case = replace(random_case(seed), of_manifest=frozenset())
        job = from_manifest(case.manifest, "--manifest")
        serve(api, [*case.items, *_policies(seed)])
        live = live_cluster.check(cluster, job, case.namespace)

        _, content = _taken(cluster)

        assert _judged(content, job) == live, seed


@pytest.mark.parametrize(
    "scope",
    [
        {"scopes": ["Terminating"]},
        {"scopes": ["CrossNamespacePodAffinity"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}},
        {},
    ],
    ids=str,
)
def test_snapshot_frees_the_quotas_that_count_the_release(api: FakeApi, cluster: Cluster, scope: Object) -> None:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["blue"]}}
    rare: Object = {"activeDeadlineSeconds": 60, "priorityClassName": "high"}
    rare["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    own = pod("p", on="a", gpu="1")
    own["spec"] |= {**rare, "containers": [{**own["spec"]["containers"][0], "image": "secret", "command": ["secret"]}]}
    own["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "run1", "uid": "1"}
    own["metadata"] |= {"annotations": {"a": "secret"}, "ownerReferences": [owner]}
    hard, used = {"pods": "3", "count/mpijobs.kubeflow.org": "1"}, {"pods": "1", "count/mpijobs.kubeflow.org": "1"}
    spec, metadata = {"hard": hard, **scope}, {"name": "q", "namespace": "team"}
    quota = {"kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": {"hard": hard, "used": used}}
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
    serve(api, [*_small(), high, quota, _kind("Pod", own)])
    api.serve_mpi_jobs()
    job = chart_job(worker=rare, launcher=rare)
    live = live_cluster.check(cluster, job, "team", release="run1")

    _, content = _taken(cluster)

    found = snapshot_file.contents(content)
    assert report(*snapshot_file.examined(found, job, "team", release="run1")) == live
    assert live.verdict == "fits"
    assert b"secret" not in content


def test_snapshot_frees_the_claims_that_end_with_the_pods_of_the_release(api: FakeApi, cluster: Cluster) -> None:
    storage = {"resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "gold"}
    claim = {"accessModes": ["ReadWriteOnce"], **storage}
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    own = pod("p", on="a")
    own["spec"]["volumes"] = scratch
    own["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    limits = {"hard": {"requests.storage": "6Gi"}, "used": {"requests.storage": "5Gi"}}
    quota = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": limits["hard"]}, "status": limits}
    gold = {"metadata": {"name": "gold"}, "provisioner": "disk", "volumeBindingMode": "WaitForFirstConsumer"}
    serve(api, [*_small(), _kind("Pod", own), _kind("ResourceQuota", quota), _kind("StorageClass", gold)])
    api.serve_mpi_jobs()
    job = chart_job(workers=1, gpus=1, worker={"volumes": scratch})
    live = live_cluster.check(cluster, job, "team", release="run1")

    _, content = _taken(cluster)

    found = snapshot_file.contents(content)
    assert (report(*snapshot_file.examined(found, job, "team", release="run1")), live.verdict) == (live, "fits")


@pytest.mark.parametrize(("server", "verdict"), [("v1.34.4", "impossible"), ("v1.35.0", "fits")])
def test_snapshot_tells_which_pod_security_checks_the_api_server_has(
    api: FakeApi, cluster: Cluster, server: str, verdict: str
) -> None:
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    security = {"seccompProfile": {"type": "RuntimeDefault"}}
    containers = [{"name": "main", "securityContext": context}]
    pod = {"hostUsers": False, "securityContext": security, "containers": containers}
    serve(api, [_kind("Node", node("a", gpu="8")), _kind("Namespace", namespace("team", "restricted"))])
    api.serve_mpi_jobs()
    api.answers["/version"] = {"gitVersion": server}
    job = chart_job(gpus=1, worker=pod, launcher=pod)
    live = live_cluster.check(cluster, job, "team")

    _, content = _taken(cluster)

    assert (_judged(content, job), live.verdict) == (live, verdict)


def test_snapshot_knows_that_there_is_no_quota(api: FakeApi, cluster: Cluster) -> None:
    serve(api, _small())
    api.serve_mpi_jobs()

    _, content = _taken(cluster)

    assert _judged(content, chart_job()).unseen == []
    without = {"items": [item for item in json.loads(content)["items"] if item["kind"] != "Snapshot"]}
    assert _judged(json.dumps(without).encode(), chart_job()).unseen == [
        "ResourceQuotas, LimitRanges, PriorityClasses (not in the file)",
        "whether the cluster serves MPIJob of kubeflow.org/v2beta1",
    ]


def test_what_may_not_be_read_is_not_judged(api: FakeApi, cluster: Cluster) -> None:
    serve(api, _small())
    api.serve_mpi_jobs()
    for kind in JUDGED[2:-1]:
        api.answers |= {kind.path(): 403, kind.path("team"): 403}
    using = {"priorityClassName": "urgent", "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]}

    written, content = _taken(cluster)

    assert sorted(written.snapshot.read) == ["Namespace", "Node", "Pod"]
    kinds = "ResourceQuotas, LimitRanges, PriorityClasses, PersistentVolumeClaims"
    answer = _judged(content, chart_job(worker=using))
    assert answer.verdict == "fits"
    assert answer.unseen[0] == f"{kinds} (who took the snapshot may not read them)"


def test_kinds_that_may_be_read_only_in_a_namespace_are_judged_there(api: FakeApi, cluster: Cluster) -> None:
    quota = {"metadata": {"name": "q", "namespace": "team"}, "status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}}
    serve(api, [*_small(), _kind("ResourceQuota", quota)])
    api.serve_mpi_jobs()
    api.answers |= {kind.path(): 403 for kind in JUDGED[1:-1]}

    written, content = _taken(cluster)

    assert written.snapshot.read["ResourceQuota"] == written.snapshot.read["Namespace"] == ["team"]
    found = snapshot_file.contents(content)
    assert report(*snapshot_file.examined(found, chart_job(), "team")).verdict == "impossible"
    other = report(*snapshot_file.examined(found, chart_job(), "other"))
    assert other.verdict == "fits"
    kinds = "Namespaces, ResourceQuotas, LimitRanges, PriorityClasses"
    assert other.unseen == [f"{kinds} (who took the snapshot may not read them)"]


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods"])
def test_nodes_and_pods_must_be_readable(api: FakeApi, cluster: Cluster, path: str) -> None:
    serve(api, _small())
    api.answers[path] = 403

    with pytest.raises(ForbiddenError, match=f"^{path.rpartition('/')[2]}.* cannot be read: .* ask for a role"):
        _taken(cluster)


def test_snapshot_says_what_the_cluster_serves(api: FakeApi, cluster: Cluster) -> None:
    serve(api, _small())
    api.serve_mpi_jobs()

    _, content = _taken(cluster)

    served = snapshot_file.contents(content).capabilities
    assert served
    assert (served.version, served.apis) == ("v1.34.4", ("kubeflow.org/v2beta1", "kubeflow.org/v2beta1/MPIJob"))


def test_every_item_is_an_object_of_kubernetes(api: FakeApi, cluster: Cluster) -> None:
    serve(api, [*_small(), _kind("Pod", pod("p", on="a", gpu="2"))])

    written, content = _taken(cluster)

    found = json.loads(content)
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert [(item["apiVersion"], item["kind"]) for item in found["items"]] == [
        ("v1", "Node"),
        ("v1", "Namespace"),
        ("v1", "Pod"),
        ("distrain/v1", "Snapshot"),
    ]
    assert written.counts == {"Node": 1, "Namespace": 1, "Pod": 1}


def _in_protobuf(*objects: Object) -> list[CountedPod]:
    return list(pods_protobuf.pods(memoryview(protobuf.page(protobuf.pods(objects)))))


@pytest.mark.parametrize("decode", [pods, _in_protobuf], ids=["json", "protobuf"])
def test_encoded_pod_counts_as_before(decode: Callable[..., Sequence[CountedPod]]) -> None:
    found = [item for seed in range(60) for item in random_case(seed).items if item["kind"] == "Pod"]

    before = decode(*found)
    after = pods(*(json.loads(encoded(each)) for each in before))

    assert list(map(_counted, after)) == list(map(_counted, before))


# A snapshot may change these fields of a pod, as long as the sum of the requests in them stays the same.
SUMMED_UP = {"containers", "init_containers", "container_statuses", "init_container_statuses"}


def _counted(pod: CountedPod) -> dict[str, Any]:
    """Return all facts about a pod that matter for the usage of a cluster."""
    names = set(pod.kind.__struct_fields__) - SUMMED_UP
    kind = {name: getattr(pod.kind, name) or None for name in names}
    kind |= {"held": held(pod.kind), "ports": host_ports(pod.kind)}
    claims = [each.persistent_volume_claim for each in pod.volumes if each.persistent_volume_claim]
    ephemeral = [(pod.name, each.name) for each in pod.volumes if each.ephemeral]
    return {
        **kind,
        "of": (pod.namespace, pod.labels, pod.is_leaving, pod.node_name),
        "claims": claims,
        "ephemeral": ephemeral,
    }
