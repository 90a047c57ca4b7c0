"""Test whether ResourceQuotas admit all pods of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from tests.plugin.check.judging import chart_job, judged
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, namespace, node, pod

ROOM = [node("a", gpu="8"), node("b", gpu="8")]
GPUS = "requests.nvidia.com/gpu"


def _quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": "team-quota", "namespace": "team"}
    status = {"hard": hard, "used": used or {}}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}, "status": status}


def _verdict(hard: Object, used: Object | None = None, **spec: Any) -> str:
    """Check a job of two workers with 4 GPUs each and a launcher with 100m cpu and 512Mi against one quota."""
    return judged(chart_job(), ROOM, others=[_quota(hard, used, **spec)]).verdict


@pytest.mark.parametrize(
    ("hard", "used", "verdict"),
    [
        pytest.param({GPUS: "8"}, {GPUS: "0"}, "fits", id="enough"),
        pytest.param({GPUS: "8"}, {GPUS: "1"}, "busy", id="in-use"),
        pytest.param({GPUS: "7"}, {GPUS: "0"}, "impossible", id="too-small"),
        pytest.param({"nvidia.com/gpu": "7"}, {}, "fits", id="gpus-count-only-as-requests"),
        pytest.param({"pods": "3"}, {"pods": "0"}, "fits", id="pods"),
        pytest.param({"pods": "2"}, {"pods": "0"}, "impossible", id="too-few-pods"),
        pytest.param({"count/pods": "5"}, {"count/pods": "3"}, "busy", id="pods-as-objects"),
        pytest.param({"requests.ephemeral-storage": "1Gi"}, {}, "fits", id="not-asked-for"),
        pytest.param({"count/mpijobs.kubeflow.org": "3"}, {"count/mpijobs.kubeflow.org": "3"}, "busy", id="jobs"),
        pytest.param({"count/pytorchjobs.kubeflow.org": "0"}, {}, "fits", id="jobs-of-another-kind"),
    ],
)
def test_quota_lets_so_much_pass(hard: Object, used: Object, verdict: str) -> None:
    assert _verdict(hard, used) == verdict


def test_quota_in_use_is_named_with_its_figures() -> None:
    answer = judged(chart_job(), ROOM, others=[_quota({GPUS: "8"}, {GPUS: "2"})])

    assert [(each.nodes, each.reason) for each in answer.reasons] == [
        (0, f"exceeded quota: team-quota, requested: {GPUS}=8, used: {GPUS}=2, limited: {GPUS}=8")
    ]
    assert answer.next == (
        f"workers: the job needs 8 of {GPUS}, and ResourceQuota team-quota has 2 of 8 in use. "
        "Wait until other pods of the namespace end, or ask for less."
    )


def test_quota_that_is_too_small_is_named_with_what_it_allows() -> None:
    answer = judged(chart_job(), ROOM, others=[_quota({GPUS: "4"})])

    assert answer.next == (
        f"workers: the job needs 8 of {GPUS}, and ResourceQuota team-quota allows 4. "
        "Ask for less, or have the quota raised."
    )


def test_quota_of_pods_is_told_in_words() -> None:
    metadata, amounts = {"name": "few", "namespace": "team"}, {"pods": "1"}
    quota = {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": amounts}, "status": {"hard": amounts}}

    answer = judged(chart_job(), ROOM, others=[quota])

    assert answer.next == (
        "workers: the job needs 3 pods, and ResourceQuota few allows 1. Ask for less, or have the quota raised."
    )


@pytest.mark.parametrize(
    ("scopes", "spec", "verdict"),
    [
        pytest.param({"scopes": ["Terminating"]}, {}, "fits", id="only-pods-with-a-deadline"),
        pytest.param({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 60}, "impossible", id="with-a-deadline"),
        pytest.param({"scopes": ["NotTerminating"]}, {}, "impossible", id="without-a-deadline"),
        pytest.param({"scopes": ["BestEffort"]}, {}, "impossible", id="gpus-alone-are-best-effort"),
        pytest.param({"scopes": ["NotBestEffort"]}, {}, "fits", id="and-not-the-other"),
        pytest.param({"scopes": ["PriorityClass"]}, {}, "fits", id="no-priority-class"),
        pytest.param({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, "impossible", id="any-class"),
        pytest.param({"scopes": ["CrossNamespacePodAffinity"]}, {}, "fits", id="no-affinity-across-namespaces"),
        pytest.param({"scopes": ["VolumeAttributesClass"]}, {}, "fits", id="scope-of-claims"),
    ],
)
def test_quota_counts_pods_in_all_its_scopes(scopes: Object, spec: Object, verdict: str) -> None:
    classes = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    quota = _quota({"pods": "1"}, **scopes)

    assert judged(chart_job(worker=spec), ROOM, others=[quota, classes]).verdict == verdict


@pytest.mark.parametrize(
    ("operator", "values", "verdict"),
    [
        ("In", ["high"], "impossible"),
        ("In", ["low"], "fits"),
        ("NotIn", ["high"], "fits"),
        ("Exists", [], "impossible"),
    ],
)
def test_scope_selects_priority_classes(operator: str, values: list[str], verdict: str) -> None:
    classes = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = _quota({"pods": "1"}, scopeSelector={"matchExpressions": [expression]})
    high = {"priorityClassName": "high"}

    assert judged(chart_job(worker=high), ROOM, others=[quota, classes]).verdict == verdict


def test_quota_on_limits_asks_every_container_for_one() -> None:
    answer = judged(chart_job(), ROOM, others=[_quota({"limits.cpu": "100"})])

    assert answer.verdict == "impossible"
    assert [each.reason for each in answer.reasons] == [
        "failed quota: team-quota: must specify limits.cpu for: launcher",
        "failed quota: team-quota: must specify limits.cpu for: worker",
    ]


def test_default_of_a_limit_range_satisfies_a_quota() -> None:
    limits = [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]
    default = {"kind": "LimitRange", "metadata": {"name": "d", "namespace": "team"}, "spec": {"limits": limits}}

    assert judged(chart_job(), ROOM, others=[_quota({"limits.cpu": "100"}), default]).verdict == "fits"


def test_own_pods_of_the_run_free_their_part() -> None:
    own = pod("p", on="a", gpu="4")
    own["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    quota = _quota({GPUS: "8"}, {GPUS: "4"})

    assert judged(chart_job(), ROOM, [own], [quota], release="run1").verdict == "fits"
    assert judged(chart_job(), ROOM, [own], [quota]).verdict == "busy"


def _own(name: str, **spec: Any) -> Object:
    """Return a pod of release run1 on node a."""
    own = pod(name, on="a")
    own["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    own["spec"] |= spec
    return own


def _limited(**resources: str) -> Object:
    return {"containers": [{"name": "main", "resources": {"limits": resources}}]}


@pytest.mark.parametrize(
    ("quota", "spec", "verdict"),
    [
        pytest.param(_quota({"pods": "3"}, {"pods": "3"}, scopes=["BestEffort"]), {}, "fits", id="in-scope"),
        pytest.param(
            _quota({"pods": "3"}, {"pods": "3"}, scopes=["BestEffort"]), _limited(cpu="1"), "busy", id="out-of-scope"
        ),
        pytest.param(
            _quota({"pods": "3"}, {"pods": "3"}, scopes=["NotTerminating"]),
            {"activeDeadlineSeconds": 60},
            "busy",
            id="with-a-deadline",
        ),
        pytest.param(
            _quota({"limits.cpu": "4"}, {"limits.cpu": "3"}), _limited(cpu="1"), "fits", id="limits-are-freed"
        ),
        pytest.param(
            _quota({"limits.cpu": "3"}, {"limits.cpu": "4"}), _limited(cpu="1"), "busy", id="limits-of-others-are-not"
        ),
    ],
)
def test_own_pods_free_the_quotas_that_count_them(quota: Object, spec: Object, verdict: str) -> None:
    bare = {} if "limits.cpu" not in quota["spec"]["hard"] else _limited(cpu="1")
    job = chart_job(gpus=0, worker=bare, launcher=bare or {"containers": [{"name": "main"}]})
    own = [_own(name, **spec) for name in "pqr"]

    assert judged(job, ROOM, own, [quota], release="run1").verdict == verdict


def test_pod_that_runs_the_check_frees_its_part() -> None:
    preflight = _own("preflight")
    preflight["metadata"]["labels"]["app.kubernetes.io/component"] = "preflight"

    assert judged(chart_job(), ROOM, [preflight], [_quota({"pods": "3"}, {"pods": "1"})], release="run1").verdict == (
        "fits"
    )


def test_pod_that_runs_the_check_frees_its_part_although_argo_cd_has_changed_its_label(
    api: FakeApi, tmp_path: Path
) -> None:
    preflight, team = _own("preflight"), "/api/v1/namespaces/team"
    labels = {"app.kubernetes.io/component": "preflight", "app.kubernetes.io/instance": "app"}
    preflight["metadata"]["labels"] |= {**labels, "distrain/instance": "run1"}
    api.answers |= {"/api/v1/nodes": ROOM, "/api/v1/pods": [preflight], team: namespace("team")}
    api.answers |= {f"{team}/limitranges": [], f"{team}/resourcequotas": [_quota({"pods": "3"}, {"pods": "1"})]}
    api.serve_mpi_jobs()
    cluster = connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))

    assert check(cluster, chart_job(), "team", release="run1").verdict == "fits"


def test_job_that_moves_to_other_nodes_frees_what_its_pods_use_there(api: FakeApi, tmp_path: Path) -> None:
    pools = [node(f"{pool}-{number}", gpu="4", labels={"pool": pool}) for pool in ("old", "new") for number in (0, 1)]
    own = [{**_own(name), "spec": pod(name, on=f"old-{name}", gpu="4")["spec"]} for name in "01"]
    team = "/api/v1/namespaces/team"
    api.answers |= {"/api/v1/nodes": pools, "/api/v1/pods": own, team: namespace("team"), f"{team}/limitranges": []}
    api.answers[f"{team}/resourcequotas"] = [_quota({GPUS: "8"}, {GPUS: "8"})]
    api.serve_mpi_jobs()
    pool = {"nodeSelector": {"pool": "new"}}
    cluster = connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))

    answer = check(cluster, chart_job(worker=pool, launcher=pool), "team", release="run1")

    assert not any("old-0" in request for request in api.requests)
    assert answer.verdict == "fits"
    assert "the run's own 2 pods count as free, since the run keeps or replaces them" in answer.assumed


def test_job_of_the_release_frees_its_place() -> None:
    own = [_own(name) for name in "pq"]
    for each in own:
        each["metadata"]["ownerReferences"] = [{"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "uid": "1"}]
    jobs = "count/mpijobs.kubeflow.org"

    one, two = (_quota({jobs: "1"}, {jobs: used}) for used in "12")

    assert judged(chart_job(), ROOM, own, [one], release="run1").verdict == "fits"
    assert judged(chart_job(), ROOM, own, [two], release="run1").verdict == "busy"
    assert judged(chart_job(), ROOM, own, [one]).verdict == "busy"


@pytest.mark.parametrize(
    ("resources", "counted"),
    [
        pytest.param({"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}, False, id="limit"),
        pytest.param({"requests": {"cpu": "0"}, "limits": {"cpu": "0"}}, True, id="zero"),
    ],
)
def test_pod_with_a_limit_is_no_best_effort(resources: Object, counted: bool) -> None:
    worker = {"containers": [{"name": "main", "resources": resources}]}
    quota = _quota({"pods": "0"}, scopes=["BestEffort"])

    assert judged(chart_job(worker=worker), ROOM, others=[quota]).verdict == ("impossible" if counted else "fits")


def test_scoped_quota_counts_no_jobs() -> None:
    assert _verdict({"count/mpijobs.kubeflow.org": "0"}, scopes=["NotTerminating"]) == "fits"


@pytest.mark.parametrize("is_required", [True, False], ids=["required", "preferred"])
def test_affinity_across_namespaces_counts(is_required: bool) -> None:
    term = {"topologyKey": "zone", "namespaces": ["blue"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    affinity = {"affinity": {"podAntiAffinity": required if is_required else preferred}}
    quota = _quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"])

    assert judged(chart_job(worker=affinity), ROOM, others=[quota]).verdict == "impossible"


def test_all_that_exceeds_a_quota_is_in_one_line() -> None:
    answer = judged(chart_job(), ROOM, others=[_quota({"pods": "2", GPUS: "8"}, {"pods": "1", GPUS: "1"})])

    assert [each.reason for each in answer.reasons] == [
        f"exceeded quota: team-quota, requested: pods=3,{GPUS}=8, used: pods=1,{GPUS}=1, limited: pods=2,{GPUS}=8"
    ]
    assert answer.verdict == "impossible"


def test_what_a_quota_counts_beside_pods_is_reported_as_not_judged() -> None:
    answer = judged(chart_job(), ROOM, others=[_quota({"count/leases.coordination.k8s.io": "1", "pods": "9"})])

    words = "ResourceQuota team-quota: count/leases.coordination.k8s.io"
    assert (answer.verdict, answer.unseen) == ("fits", [words])


@pytest.mark.parametrize(
    ("name", "is_judged"),
    [
        ("cpu", True),
        ("pods", True),
        ("requests.nvidia.com/gpu", True),
        ("limits.memory", True),
        ("hugepages-2Mi", True),
        ("count/pods", True),
        ("count/mpijobs.kubeflow.org", True),
        ("requests.storage", True),
        ("gold.storageclass.storage.k8s.io/requests.storage", True),
        ("requests.gold.storageclass.storage.k8s.io/persistentvolumeclaims", True),
        ("services", False),
    ],
)
def test_resources_that_pods_and_the_job_use_are_judged(name: str, is_judged: bool) -> None:
    job = chart_job(gpus=0, worker=_limited(cpu="1", memory="1Gi"), launcher=_limited(cpu="1", memory="1Gi"))

    answer = judged(job, ROOM, others=[_quota({name: "99Gi"})])

    assert answer.unseen == ([] if is_judged else [f"ResourceQuota team-quota: {name}"])


def test_resource_that_the_job_does_not_use_but_only_pods_do_is_judged() -> None:
    answer = judged(chart_job(), ROOM, others=[_quota({"requests.amd.com/gpu": "0", "pods": "9", "count/leases": "1"})])

    assert answer.unseen == ["ResourceQuota team-quota: count/leases"]
