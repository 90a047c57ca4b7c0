"""Test which objects a check reads in addition to nodes and pods, and when these objects make a job impossible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from distrain.check.report import Report
from distrain.scheduler.messages import IN_USE
from distrain.workload.manifest import Job, from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.check.judging import chart_job, job_of, judged
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, mpi_job, namespace, node, pod, pytorch_job

TEAM = "/api/v1/namespaces/team"


def _cluster(api: FakeApi, folder: Path) -> Cluster:
    return connect(Target(str(api.kubeconfig(folder)), "fake", "team"))


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path) -> Cluster:
    api.answers["/api/v1/nodes"] = [node("a", gpu="8")]
    api.answers["/api/v1/pods"] = []
    api.serve("v1", "MPIJob", "PyTorchJob")
    api.serve("v2beta1", "MPIJob")
    api.answers[TEAM] = namespace("team")
    api.answers[f"{TEAM}/resourcequotas"] = []
    api.answers[f"{TEAM}/limitranges"] = []
    return _cluster(api, tmp_path)


def _check(cluster: Cluster, job: Job | None = None) -> Report:
    return check(cluster, job or chart_job(), "team")


def _reads(api: FakeApi) -> list[str]:
    return [request.partition(" ")[2].partition("?")[0] for request in api.requests]


def _env(*references: Object) -> Object:
    env = [{"name": f"V{number}", "valueFrom": each} for number, each in enumerate(references)]
    return {"containers": [{"name": "main", "env": env}]}


def test_only_what_the_job_depends_on_is_read(api: FakeApi, cluster: Cluster) -> None:
    answer = _check(cluster)

    assert (answer.verdict, answer.unseen) == ("fits", [])
    assert sorted(_reads(api)) == sorted(
        [
            *("/api/v1/nodes", "/api/v1/pods", TEAM, f"{TEAM}/resourcequotas", f"{TEAM}/limitranges"),
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "/apis/kubeflow.org/v2beta1",
        ]
    )


def test_what_may_not_be_read_is_named_and_changes_no_verdict(api: FakeApi, cluster: Cluster) -> None:
    for path in (TEAM, f"{TEAM}/resourcequotas", f"{TEAM}/limitranges"):
        api.answers[path] = 403

    answer = _check(cluster)

    assert answer.verdict == "fits"
    assert answer.unseen == [
        "labels of namespace team (you may not read it)",
        "ResourceQuotas of namespace team (you may not read it)",
        "LimitRanges of namespace team (you may not read it)",
    ]


def test_quota_of_the_cluster_is_judged(api: FakeApi, cluster: Cluster) -> None:
    api.answers[f"{TEAM}/resourcequotas"] = [{"metadata": {"name": "q"}, "status": {"hard": {"pods": "1"}}}]

    assert _check(cluster).verdict == "impossible"


CREATE = "kubectl --namespace team create secret generic"
SSH_KEYS = "--from-file=id_rsa --from-file=id_rsa.pub --from-file=authorized_keys"
HOW = {"keys": f" with `{CREATE} keys --from-literal=k=...`", "ours": f" with `{CREATE} ours {SSH_KEYS}`"}
SECRET = {"secretKeyRef": {"name": "keys", "key": "k"}}
CONFIG = {"configMapKeyRef": {"name": "conf", "key": "k"}}


def _volume(name: str, **source: Any) -> Object:
    return {"volumes": [{"name": name, **source}]}


def _of_s3(*more: Object) -> Object:
    return {"containers": [{"name": "main", "env": [{"name": "AWS_ACCESS_KEY_ID", "valueFrom": SECRET}]}, *more]}


@pytest.mark.parametrize(
    ("worker", "value", "words"),
    [
        pytest.param(_env(SECRET), "env", "there is no Secret keys", id="variable"),
        pytest.param(_env(CONFIG), "env", "there is no ConfigMap conf", id="config"),
        pytest.param(_of_s3(), "s3.secretName", "there is no Secret keys", id="s3"),
        pytest.param(
            {"containers": [{"name": "main"}, {"name": "beside", "envFrom": [{"secretRef": {"name": "all"}}]}]},
            "workers.sidecars",
            "there is no Secret all",
            id="all-variables-of-a-sidecar",
        ),
        pytest.param(
            {"initContainers": [{"name": "before", "env": [{"name": "A", "valueFrom": SECRET}]}]},
            "workers.podSpec",
            "there is no Secret keys",
            id="init-container",
        ),
        pytest.param(_volume("v", secret={"secretName": "files"}), "volumes", "there is no Secret files", id="volume"),
        pytest.param(
            _volume("ssh-auth", secret={"secretName": "ours"}), "ssh.secretName", "there is no Secret ours", id="ssh"
        ),
        pytest.param(_volume("v", configMap={"name": "files"}), "volumes", "there is no ConfigMap files", id="map"),
        pytest.param(
            _volume("v", projected={"sources": [{"secret": {"name": "part"}}]}),
            "volumes",
            "there is no Secret part",
            id="projected",
        ),
    ],
)
def test_missing_secret_or_config_is_named_with_its_value(
    cluster: Cluster, worker: Object, value: str, words: str
) -> None:
    answer = _check(cluster, chart_job(worker=worker))

    assert answer.verdict == "impossible"
    how = HOW.get(words.rpartition(" ")[2], "")
    assert answer.next == f"{value}: {words} in namespace team, without which its pods do not start. Create it{how}."


@pytest.mark.parametrize(
    "worker",
    [
        pytest.param(_env({"secretKeyRef": {"name": "keys", "key": "k", "optional": True}}), id="optional"),
        pytest.param({"volumes": [{"name": "v", "secret": {"secretName": "run1-1234abcd-ssh"}}]}, id="the-operators"),
        pytest.param(
            {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}]},
            id="every-namespaces",
        ),
    ],
)
def test_what_need_not_be_there_before_is_not_asked_for(api: FakeApi, cluster: Cluster, worker: Object) -> None:
    assert _check(cluster, chart_job(worker=worker)).verdict == "fits"
    assert not any("secrets" in path or "configmaps" in path for path in _reads(api))


def test_object_in_the_manifest_is_not_missing(cluster: Cluster) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}}

    assert _check(cluster, job_of(secret, mpi_job(worker=_env(SECRET)))).verdict == "fits"


def test_secret_that_is_there_is_found_without_its_keys(api: FakeApi, cluster: Cluster) -> None:
    api.answers[f"{TEAM}/secrets/keys"] = {"metadata": {"name": "keys"}}

    assert _check(cluster, chart_job(worker=_env(SECRET))).verdict == "fits"
    accepted = api.accepted[_reads(api).index(f"{TEAM}/secrets/keys")]
    assert "as=PartialObjectMetadata" in accepted


def test_secret_that_may_not_be_read_is_named(api: FakeApi, cluster: Cluster) -> None:
    api.answers[f"{TEAM}/secrets/keys"] = 403

    answer = _check(cluster, chart_job(worker=_env(SECRET)))

    assert (answer.verdict, answer.unseen) == ("fits", ["Secret keys of namespace team (you may not read it)"])


@pytest.mark.parametrize(
    ("worker", "verdict", "step"),
    [
        pytest.param({}, "fits", "", id="nothing-needed"),
        pytest.param(
            _env(SECRET),
            "impossible",
            "env: there is neither namespace team nor Secret keys, without which its pods do not start. Create both, "
            f"the Secret{HOW['keys']}.",
            id="secret",
        ),
    ],
)
def test_missing_namespace_is_judged_as_an_empty_one(
    api: FakeApi, cluster: Cluster, worker: Object, verdict: str, step: str
) -> None:
    api.answers[TEAM] = 404

    answer = _check(cluster, chart_job(worker=worker))

    assert (answer.verdict, answer.next) == (verdict, step)
    assert answer.unseen == ["namespace team, which is not there: an empty one is judged"]


def test_namespace_that_is_being_deleted_takes_no_job(api: FakeApi, cluster: Cluster) -> None:
    found = namespace("team")
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.answers[TEAM] = found

    answer = _check(cluster)

    words = "unable to create new content in namespace team because it is being terminated"
    assert (answer.verdict, [each.reason for each in answer.reasons]) == ("impossible", [words])


def test_storage_class_of_the_manifest_is_judged(api: FakeApi, cluster: Cluster) -> None:
    version = "storage.k8s.io/v1"
    fast = {"apiVersion": version, "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p"}
    container = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}

    answer = _check(cluster, from_manifest(yaml_writer.dump(job, fast), "--manifest", judges_all=True))

    assert (answer.verdict, answer.unseen) == ("fits", [])


def test_service_account_that_nobody_makes_is_named(api: FakeApi, cluster: Cluster) -> None:
    job = mpi_job(worker={"serviceAccountName": "trainer"})
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}

    answer = _check(cluster, job_of(job))

    words = 'error looking up service account team/trainer: serviceaccount "trainer" not found'
    assert (answer.verdict, [each.reason for each in answer.reasons]) == ("impossible", [words])
    assert _check(cluster, job_of(job, made)).verdict == "fits"
    assert _check(cluster, job_of(mpi_job(worker={"serviceAccountName": "default"}))).verdict == "fits"
    api.answers[f"{TEAM}/serviceaccounts/trainer"] = made
    assert _check(cluster, job_of(job)).verdict == "fits"


@pytest.mark.parametrize("version", ["v1", "v9"])
def test_kind_that_the_cluster_does_not_serve_is_refused(api: FakeApi, cluster: Cluster, version: str) -> None:
    api.answers["/apis/kubeflow.org/v1"] = {"resources": [{"name": "tfjobs", "kind": "TFJob"}]}

    answer = _check(cluster, chart_job(version=version))

    words = f'no matches for kind "MPIJob" in version "kubeflow.org/{version}"'
    assert (answer.verdict, answer.reasons[0].reason) == ("impossible", words)
    assert answer.next == (
        f"job.apiVersion: the cluster does not serve MPIJob of kubeflow.org/{version}. "
        "Install an operator that does, or choose another version or kind."
    )


def test_kinds_that_may_not_be_read_are_named(api: FakeApi, cluster: Cluster) -> None:
    api.answers["/apis/kubeflow.org/v2beta1"] = 403

    answer = _check(cluster)

    words = "whether the cluster serves MPIJob of kubeflow.org/v2beta1 (you may not read it)"
    assert (answer.verdict, answer.unseen) == ("fits", [words])


def test_claims_of_the_cluster_are_judged(api: FakeApi, cluster: Cluster) -> None:
    api.answers[f"{TEAM}/persistentvolumeclaims"] = []
    using = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}

    answer = _check(cluster, chart_job(worker=using))

    assert answer.next == "workers: there is no persistent volume claim data. Create it, or correct its name."


def test_exclusive_claim_is_in_use_wherever_its_pod_runs(api: FakeApi, cluster: Cluster) -> None:
    using = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    user = pod("reader", on="cpu-0")
    user["spec"].update(using)
    bound = {"name": "data", "namespace": "team", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"metadata": bound, "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}}
    # Only node `a` has GPUs for the job, so the check does not read the pods of other nodes.
    cluster_nodes = [node("a", gpu="8"), node("cpu-0", cpu="0"), node("cpu-1", cpu="0")]
    api.answers |= {"/api/v1/nodes": cluster_nodes, "/api/v1/pods": [user], f"{TEAM}/pods": [user]}
    api.answers |= {f"{TEAM}/persistentvolumeclaims": [claim], "/apis/storage.k8s.io/v1/storageclasses": []}
    api.answers["/api/v1/persistentvolumes"] = [{"metadata": {"name": "v"}}]

    answer = _check(cluster, chart_job(workers=1, worker=using))

    others: list[Object] = [{"kind": "PersistentVolume", "metadata": {"name": "v"}}, {"kind": "PersistentVolumeClaim"}]
    others[1] |= claim
    snapshot = judged(chart_job(workers=1, worker=using), cluster_nodes, [user], others)
    assert (answer.verdict, answer.reasons) == (snapshot.verdict, snapshot.reasons)
    assert answer.verdict == "busy"
    assert IN_USE in [each.reason for each in answer.reasons]
    assert len([path for path in _reads(api) if path == f"{TEAM}/pods"]) == 1


def test_claim_that_the_manifest_brings_is_not_missing(api: FakeApi, cluster: Cluster) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    using = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    classes = [{"metadata": {"name": "disk", **default}, "provisioner": "disk"}]
    api.answers |= {f"{TEAM}/persistentvolumeclaims": [], "/api/v1/persistentvolumes": []}
    api.answers |= {"/apis/storage.k8s.io/v1/storageclasses": classes, "/apis/storage.k8s.io/v1/csinodes": []}

    answer = _check(cluster, job_of(claim, mpi_job(worker=using)))

    assert answer.verdict == "fits"
    assert answer.unseen == ["where the volume of persistent volume claim data, yet to be created, can be"]


def test_missing_priority_class_is_named(api: FakeApi, cluster: Cluster) -> None:
    api.answers["/apis/scheduling.k8s.io/v1/priorityclasses"] = []

    answer = _check(cluster, chart_job(worker={"priorityClassName": "urgent"}))

    assert answer.verdict == "impossible"
    assert answer.next == "priorityClassName: there is no PriorityClass urgent. Create it, or name another."
    assert _check(cluster, chart_job(worker={"priorityClassName": "system-node-critical"})).verdict == "fits"


def _restricted(job: Object) -> Object:
    """Return the job, changed so that `restricted` admits its pods."""
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    [replicas] = [value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs")]
    for replica in replicas.values():
        spec = replica["template"]["spec"]
        spec["securityContext"] = context
        for container in spec["containers"]:
            container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return job


@pytest.mark.parametrize(
    ("job", "level", "verdict"),
    [
        pytest.param(_restricted(mpi_job(version="v1", gpus=1)), "restricted", "impossible", id="kubectl-delivery"),
        pytest.param(
            _restricted(pytorch_job(workers=2, gpus=1, master=True)), "restricted", "impossible", id="init-pytorch"
        ),
        pytest.param(_restricted(mpi_job(version="v1", gpus=1)), "baseline", "fits", id="baseline"),
        pytest.param(_restricted(mpi_job(gpus=1)), "restricted", "fits", id="nothing-added"),
    ],
)
def test_restricted_namespace_refuses_what_an_operator_adds(
    api: FakeApi, cluster: Cluster, job: Object, level: str, verdict: str
) -> None:
    api.answers[TEAM] = namespace("team", level)
    api.answers["/api/v1/nodes"] = [node("a", {"ephemeral-storage": "100Gi"}, gpu="8")]

    assert _check(cluster, job_of(job)).verdict == verdict


def test_gated_pods_wait_for_somebody() -> None:
    answer = judged(chart_job(worker={"schedulingGates": [{"name": "team/approved"}]}), [node("a", gpu="8")])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "workers: no pod is placed before its scheduling gates are lifted: team/approved. Lift them, or leave them out."
    )


def test_what_the_verdict_leaves_out_is_reported() -> None:
    worker: Object = {"schedulerName": "volcano", "runtimeClassName": "gvisor", "resourceClaims": [{"name": "gpu"}]}
    worker["volumes"] = [{"name": "disk", "gcePersistentDisk": {"pdName": "data"}}]

    assert judged(chart_job(worker=worker), [node("a", gpu="8")]).unseen == [
        "the rules of scheduler volcano of the worker",
        "volumes of type gcePersistentDisk of the worker",
        "resource claims gpu of the worker",
        "the overhead and nodes of runtime class gvisor of the worker",
    ]


def _priority(value: int) -> Object:
    return {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": value}


@pytest.mark.parametrize(("priority", "verdict"), [(100, "busy"), (50, "busy"), (49, "fits")])
def test_nominated_pod_holds_its_place_unless_its_priority_is_lower(priority: int, verdict: str) -> None:
    waiting = pod("p", gpu="4", phase="Pending")
    waiting["status"]["nominatedNodeName"] = "a"
    waiting["spec"].update({"nodeName": "", "priority": priority})
    urgent: dict[str, Any] = {"priorityClassName": "urgent"}

    answer = judged(chart_job(worker=urgent, launcher=urgent), [node("a", gpu="8")], [waiting], [_priority(50)])

    assert answer.verdict == verdict


@pytest.mark.parametrize(("policy", "said"), [("", True), ("Never", False)])
def test_pods_that_the_job_could_push_out_are_said_to_stay(policy: str, said: bool) -> None:
    urgent = {"priorityClassName": "urgent"}
    job = chart_job(worker=urgent, launcher=urgent)
    priority = {**_priority(50), **({"preemptionPolicy": policy} if policy else {})}

    answer = judged(job, [node("a", gpu="8")], [pod("p", on="a", gpu="4")], [priority])

    words = "pods of a lower priority stay: the scheduler may remove some of these 1 for the job"
    assert (answer.verdict, answer.assumed) == ("busy", [words] if said else [])
