"""Test that the quotas, LimitRanges, Namespaces and PriorityClasses in a manifest apply to the manifest's pods."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from distrain.check.report import Report, report
from distrain.check.snapshot import snapshot_file
from distrain.check.snapshot.snapshot_writer import write
from distrain.errors import ValuesError
from distrain.workload.manifest import Job, from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.check.judging import judged, kind
from tests.plugin.check.serving import serve
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, namespace, node, pod

ROOM = [node("a")]
TEAM = "/api/v1/namespaces/team"
LEVEL = "pod-security.kubernetes.io/enforce"


def _job(name: str = "train", where: str = "", pods: int = 2, **spec: Any) -> Object:
    """Return a Job whose pods request 1 cpu each."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    return {**_made("Job", name, where, "batch/v1"), "spec": {"parallelism": pods, "template": template}}


def _made(kind: str, name: str, where: str = "", version: str = "v1", **more: Any) -> Object:
    metadata = {"name": name, **({"namespace": where} if where else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _quota(hard: Object, where: str = "", name: str = "few", **more: Any) -> Object:
    return _made("ResourceQuota", name, where, spec={"hard": hard, **more})


def _limit_range(limit: Object, where: str = "", name: str = "sizes") -> Object:
    return _made("LimitRange", name, where, spec={"limits": [{"type": "Container", **limit}]})


def _namespace(name: str, **labels: str) -> Object:
    found = _made("Namespace", name)
    found["metadata"]["labels"] = labels
    return found


def _class(value: int = 7, **more: Any) -> Object:
    return _made("PriorityClass", "high", version="scheduling.k8s.io/v1", value=value, **more)


def _hook(item: Object, events: str, deletion: str = "before-hook-creation") -> Object:
    annotations = {"helm.sh/hook": events, "helm.sh/hook-delete-policy": deletion}
    return {**item, "metadata": {**item["metadata"], "annotations": annotations}}


def _read(*items: Object) -> Job:
    return from_manifest(yaml_writer.dump(*items), "--manifest", judges_all=True)


def _said(*items: Object, there: list[Object] | None = None, running: list[Object] | None = None) -> Report:
    """Check a manifest against a cluster with enough capacity.

    The cluster contains the objects `there` and the pods `running`.
    """
    return judged(_read(*items), ROOM, running or [], there or [])


REFUSING = [
    pytest.param(
        _quota({"pods": "1"}, "team"),
        "exceeded quota: few, requested: pods=2, used: pods=0, limited: pods=1",
        id="quota",
    ),
    pytest.param(
        _quota({"limits.cpu": "9"}, "team"), "failed quota: few: must specify limits.cpu for: main", id="no-limit"
    ),
    pytest.param(
        _limit_range({"min": {"cpu": "2"}}, "team"),
        "minimum cpu usage per Container is 2, but request is 1",
        id="limit-range",
    ),
    pytest.param(
        _namespace("team", **{LEVEL: "baseline"}),
        'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
        id="pod-security",
    ),
]


@pytest.mark.parametrize(("policy", "reason"), REFUSING)
def test_policy_of_the_manifest_refuses_as_one_of_the_cluster(policy: Object, reason: str) -> None:
    job = _job(hostNetwork=True)

    answer, of_cluster = _said(job, policy), _said(job, there=[policy])

    assert (answer.verdict, [each.reason for each in answer.reasons]) == ("impossible", [reason])
    assert (answer.verdict, answer.reasons, answer.next, answer.unseen) == (
        of_cluster.verdict,
        of_cluster.reasons,
        of_cluster.next,
        of_cluster.unseen,
    )


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param([_quota({"pods": "2"})], id="quota-that-is-enough"),
        pytest.param([_quota({"pods": "1"}, "blue")], id="quota-of-another-namespace"),
        pytest.param([_quota({"pods": "1"}), _quota({"pods": "2"}, "team")], id="last-of-one-name"),
        pytest.param([_quota({"limits.cpu": "2"}), _limit_range({"default": {"cpu": "1"}})], id="default-of-a-limit"),
        pytest.param([_quota({"pods": "1"}, scopes=["Terminating"])], id="other-scope"),
        pytest.param([_quota({"count/jobs.batch": "0"}, scopes=["NotTerminating"])], id="scope-in-which-no-jobs-count"),
        pytest.param([_namespace("team", **{LEVEL: "baseline"})], id="pod-security-that-admits"),
    ],
)
def test_policy_that_admits_the_job_is_not_named(policies: list[Object]) -> None:
    answer = _said(_job(), *policies)

    assert (answer.verdict, answer.unseen) == ("fits", [])


@pytest.mark.parametrize(
    ("there", "policy", "verdict"),
    [
        pytest.param(_quota({"pods": "1"}, "team"), _quota({"pods": "2"}), "fits", id="larger-quota"),
        pytest.param(_quota({"pods": "2"}, "team"), _quota({"pods": "1"}), "impossible", id="smaller-quota"),
        pytest.param(_quota({"pods": "1"}, "team"), _quota({"pods": "2"}, name="other"), "impossible", id="two-quotas"),
        pytest.param(
            _limit_range({"min": {"cpu": "2"}}, "team"), _limit_range({"min": {"cpu": "1"}}), "fits", id="limit-range"
        ),
        pytest.param(
            _namespace("team", **{LEVEL: "restricted"}), _namespace("team", **{LEVEL: "baseline"}), "fits", id="labels"
        ),
        pytest.param(
            _namespace("team", **{LEVEL: "restricted"}), _namespace("team", of="a"), "impossible", id="label-stays"
        ),
    ],
)
def test_policy_replaces_the_one_of_the_same_name(there: Object, policy: Object, verdict: str) -> None:
    assert _said(_job(), policy, there=[there]).verdict == verdict


@pytest.mark.parametrize(
    ("running", "verdict"),
    [
        pytest.param([pod("p", on="a")], "busy", id="in-use"),
        pytest.param([pod("p", on="a", phase="Succeeded")], "fits", id="ended"),
        pytest.param([{**pod("p", on="a"), "metadata": {"name": "p", "namespace": "blue"}}], "fits", id="elsewhere"),
    ],
)
def test_new_quota_counts_the_pods_that_are_there(running: list[Object], verdict: str) -> None:
    answer = _said(_job(), _quota({"pods": "2"}), running=running)

    assert (answer.verdict, answer.unseen) == (verdict, [])


def test_new_quota_of_pod_objects_counts_ended_pods_too() -> None:
    answer = _said(_job(), _quota({"count/pods": "2"}), running=[pod("p", on="a", phase="Succeeded")])

    assert (answer.verdict, answer.unseen) == ("busy", [])


def test_use_by_other_objects_than_pods_is_told_of_a_new_quota() -> None:
    answer = _said(_job(), _quota({"count/jobs.batch": "1", "pods": "2"}))

    words = "what is in use of ResourceQuota few of the manifest: count/jobs.batch"
    assert (answer.verdict, answer.unseen) == ("fits", [words])


def test_quota_of_the_same_name_tells_the_use_by_other_objects() -> None:
    there = {**_quota({"count/jobs.batch": "9"}, "team"), "status": {"used": {"count/jobs.batch": "1"}}}

    said = [_said(_job(), _quota({"count/jobs.batch": hard}), there=[there]) for hard in "12"]
    assert [(each.verdict, each.unseen) for each in said] == [("busy", []), ("fits", [])]


@pytest.mark.parametrize("where", ["new", ""])
def test_namespace_of_the_manifest_is_there(where: str) -> None:
    made = _namespace("new", **{LEVEL: "restricted"})
    pods = [{**pod("p", on="a"), "metadata": {"name": "p", "namespace": "new"}}]

    answer = _said(_job(where=where), made, _quota({"count/jobs.batch": "1"}, "new"), running=pods)

    assert (answer.verdict, answer.unseen) == ("impossible" if where else "fits", [])


def test_every_namespace_has_its_own_policies() -> None:
    jobs = _job("one"), _job("two", "blue", pods=1)
    policies = _quota({"pods": "2"}), _quota({"pods": "0"}, "blue"), _namespace("blue")

    answer = _said(*jobs, *policies)

    words = "exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0"
    assert [each.reason for each in answer.reasons] == [words]


@pytest.mark.parametrize(
    ("policy", "verdict", "unseen"),
    [
        pytest.param(_hook(_quota({"pods": "1"}), "pre-install"), "impossible", [], id="before"),
        pytest.param(
            _hook(_quota({"pods": "1"}), "post-install"), "fits", ["ResourceQuota few, a Helm hook"], id="after"
        ),
        pytest.param(
            _hook(_quota({"pods": "1"}), "pre-install", "hook-succeeded"),
            "fits",
            ["ResourceQuota few, a Helm hook"],
            id="deleted-again",
        ),
    ],
)
def test_hook_counts_if_it_is_there_when_the_pods_are_created(policy: Object, verdict: str, unseen: list[str]) -> None:
    answer = _said(_job(), policy)

    assert (answer.verdict, answer.unseen) == (verdict, unseen)


def test_class_of_the_manifest_gives_its_priority() -> None:
    words = "the integer value of priority (5) must not be provided in pod spec"
    job = _job(priorityClassName="high", priority=5)

    assert _said(_job(priorityClassName="high"), _class()).verdict == "fits"
    assert _said(job, _class()).reasons[0].reason.startswith(words)
    assert _said(_job(priority=5), _class(globalDefault=True)).reasons[0].reason.startswith(words)


def test_class_of_an_api_version_that_is_not_read_is_not_said_to_be_missing() -> None:
    former = {**_class(), "apiVersion": "scheduling.k8s.io/v1beta1"}

    answer = _said(_job(priorityClassName="high"), former)

    assert (answer.verdict, answer.reasons) == ("fits", [])


def test_status_in_the_manifest_is_ignored() -> None:
    quota = {**_quota({"pods": "2"}), "status": {"hard": {"pods": "0"}, "used": {"pods": "9"}}}

    assert _said(_job(), quota).verdict == "fits"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (_quota({"pods": "few"}), "--manifest: ResourceQuota few: "),
        ({**_quota({}), "spec": []}, "--manifest: ResourceQuota few: spec: found a list; it needs a mapping of keys"),
    ],
)
def test_policy_of_another_form_is_refused_by_name(policy: Object, words: str) -> None:
    with pytest.raises(ValuesError) as refused:
        _read(_job(), policy)

    assert refused.value.messages[0].startswith(words)


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path) -> Cluster:
    api.answers |= {"/api/v1/nodes": ROOM, "/api/v1/pods": [], TEAM: namespace("team"), f"{TEAM}/pods": []}
    api.answers |= {f"{TEAM}/{plural}": [] for plural in ("resourcequotas", "limitranges")}
    api.answers["/apis/scheduling.k8s.io/v1/priorityclasses"] = []
    return connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))


@pytest.mark.parametrize(
    ("there", "verdict", "unseen"),
    [
        pytest.param([pod("p", on="a")], "busy", [], id="in-use"),
        pytest.param([], "fits", [], id="free"),
        pytest.param(
            403,
            "fits",
            [
                "pods of namespace team (you may not read it)",
                "what is in use of ResourceQuota few of the manifest: pods",
            ],
            id="forbidden",
        ),
    ],
)
def test_pods_of_the_cluster_count_in_a_new_quota(
    api: FakeApi, cluster: Cluster, there: list[Object] | int, verdict: str, unseen: list[str]
) -> None:
    api.answers[f"{TEAM}/pods"] = there

    answer = check(cluster, _read(_job(), _quota({"pods": "2"})), "team")

    assert (answer.verdict, answer.unseen) == (verdict, unseen)


@pytest.mark.parametrize(
    ("quota", "verdict", "unseen"),
    [
        pytest.param(_quota({"pods": "2"}), "busy", [], id="pods"),
        pytest.param(
            _quota({"limits.cpu": "2"}),
            "impossible",
            ["what is in use of ResourceQuota few of the manifest: limits.cpu"],
            id="limits",
        ),
    ],
)
def test_new_quota_counts_what_a_snapshot_tells_of_pods(
    api: FakeApi, cluster: Cluster, quota: Object, verdict: str, unseen: list[str]
) -> None:
    serve(api, [*kind("Node", *ROOM), *kind("Namespace", namespace("team")), *kind("Pod", pod("p", on="a"))])
    file = io.BytesIO()
    write(cluster, file, "team")

    found = snapshot_file.examined(snapshot_file.contents(file.getvalue()), _read(_job(), quota), "team")

    assert (report(*found).verdict, report(*found).unseen) == (verdict, unseen)


def test_namespace_that_the_manifest_makes_is_not_missed(api: FakeApi, cluster: Cluster) -> None:
    api.answers[TEAM] = 404
    api.answers[f"{TEAM}/pods"] = 404

    answer = check(cluster, _read(_job(), _namespace("team"), _quota({"pods": "2"})), "team")

    assert (answer.verdict, answer.unseen) == ("fits", [])


def test_labels_of_the_manifest_count_where_the_cluster_forbids_to_read_them(api: FakeApi, cluster: Cluster) -> None:
    api.answers[TEAM] = 403

    answer = check(cluster, _read(_job(), _namespace("team", **{LEVEL: "restricted"})), "team")

    assert (answer.verdict, answer.unseen) == ("impossible", ["labels of namespace team (you may not read it)"])


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        pytest.param("low", "impossible", id="another"),
        pytest.param("high", "fits", id="the-same-again"),
    ],
)
def test_second_global_default_is_refused(other: str, verdict: str) -> None:
    job = from_manifest(yaml_writer.dump(_job(), _class(globalDefault=True)), "--manifest")
    there = {"kind": "PriorityClass", "metadata": {"name": other}, "value": 7, "globalDefault": True}

    answer = judged(job, ROOM, others=[there])

    assert answer.verdict == verdict
    if verdict == "impossible":
        assert answer.reasons[0].reason == "PriorityClass low is already marked as default. Only one default can exist"
        assert answer.next.startswith("PriorityClass high: low is the global default. Leave globalDefault out.")


def test_global_default_of_a_cluster_whose_classes_are_unknown_is_taken() -> None:
    job = from_manifest(yaml_writer.dump(_job(), _class(globalDefault=True)), "--manifest")
    found = snapshot_file.contents(json.dumps({"items": kind("Node", *ROOM)}).encode())

    assert report(*snapshot_file.examined(found, job, "team")).verdict == "fits"


CHANGED = 'PriorityClass.scheduling.k8s.io "high" is invalid: '


@pytest.mark.parametrize(
    ("there", "words"),
    [
        pytest.param({"value": 5}, "value: Forbidden: may not be changed in an update.", id="value"),
        pytest.param(
            {"preemptionPolicy": "Never"},
            'preemptionPolicy: Invalid value: "PreemptLowerPriority": field is immutable',
            id="policy",
        ),
    ],
)
def test_change_of_a_class_is_refused(there: Object, words: str) -> None:
    changed = _class(preemptionPolicy="PreemptLowerPriority")

    answer = _said(_job(), changed, there=[{**changed, **there}])

    assert (answer.verdict, answer.reasons[0].reason) == ("impossible", CHANGED + words)
    assert "which cannot change. Keep it, or use another name." in answer.next


@pytest.mark.parametrize(
    ("new", "there"),
    [
        pytest.param(_hook(_class(), "pre-install"), _class(5), id="hook-is-deleted-first"),
        pytest.param(_class(), _class(preemptionPolicy="Never"), id="policy-is-not-stated"),
        pytest.param(_class(preemptionPolicy="PreemptLowerPriority"), _class(), id="policy-is-the-default"),
        pytest.param(_class(0), _class(5), id="value-may-be-missing"),
    ],
)
def test_class_without_a_change_is_accepted(new: Object, there: Object) -> None:
    assert _said(_job(), new, there=[there]).verdict == "fits"
