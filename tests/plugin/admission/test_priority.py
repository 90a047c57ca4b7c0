"""Test which PriorityClass a pod gets, and that a pod is refused if it contradicts its PriorityClass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain import kube
from distrain.admission.priority import applied
from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from distrain.check.report import Report
from distrain.kube.policy import PriorityClass
from tests.plugin.check.judging import chart_job, judged
from tests.plugin.fake_api import PRIORITY_CLASSES, FakeApi
from tests.plugin.objects import Object, namespace, node, pod

ROOM = [node("a", gpu="8")]
DEFAULT: dict[str, Any] = {
    "kind": "PriorityClass",
    "metadata": {"name": "standard"},
    "value": 50,
    "globalDefault": True,
}


def _class(name: str, value: int, **more: Any) -> Object:
    return {**DEFAULT, "metadata": {"name": name}, "value": value, **more}


def _quota(*classes: str) -> Object:
    """Return a quota that admits one pod of these PriorityClasses."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": list(classes)}
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [scope]}}
    return {"kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "team"}, "spec": spec}


def _job(**worker: Any) -> Any:
    return chart_job(worker=worker, launcher=worker)


@pytest.mark.parametrize(
    ("classes", "counted", "verdict"),
    [
        pytest.param([DEFAULT], "standard", "impossible", id="default"),
        pytest.param([DEFAULT], "high", "fits", id="another"),
        pytest.param([_class("standard", 50, globalDefault=False)], "standard", "fits", id="no-default"),
        pytest.param([DEFAULT, _class("low", 10)], "low", "impossible", id="lowest-of-two-defaults"),
        pytest.param([DEFAULT, _class("low", 10)], "standard", "fits", id="not-the-highest-of-two-defaults"),
    ],
)
def test_quota_counts_pods_that_get_the_global_default(classes: list[Object], counted: str, verdict: str) -> None:
    assert judged(_job(), ROOM, others=[*classes, _quota(counted)]).verdict == verdict


def _live(api: FakeApi, folder: Path, classes: list[Object] | int) -> Report:
    """Check a job for the only node while another pod, of priority 10, waits and is nominated for this node."""
    waiting = pod("p", gpu="8", phase="Pending")
    waiting["status"]["nominatedNodeName"] = "a"
    waiting["spec"]["priority"] = 10
    api.answers |= {"/api/v1/nodes": ROOM, "/api/v1/pods": [waiting], "/api/v1/namespaces/team": namespace("team")}
    api.answers |= {f"/api/v1/namespaces/team/{plural}": [] for plural in ("resourcequotas", "limitranges")}
    api.answers[PRIORITY_CLASSES] = classes
    api.serve_mpi_jobs()
    return check(connect(Target(str(api.kubeconfig(folder)), "fake", "team")), _job(), "team")


@pytest.mark.parametrize(("classes", "verdict"), [([DEFAULT], "fits"), ([], "busy")])
def test_pod_of_the_global_default_goes_before_a_nominated_pod_of_less(
    api: FakeApi, tmp_path: Path, classes: list[Object], verdict: str
) -> None:
    assert _live(api, tmp_path, classes).verdict == verdict


def test_classes_that_may_not_be_read_are_named(api: FakeApi, tmp_path: Path) -> None:
    assert "PriorityClasses (you may not read it)" in _live(api, tmp_path, 403).unseen


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 50 from the given PriorityClass name",
            id="priority",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical", "preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name",
            id="preemption-policy",
        ),
        pytest.param({"priorityClassName": "high"}, "no PriorityClass with name high was found", id="missing"),
    ],
)
def test_pod_that_contradicts_its_class_is_refused(spec: Object, words: str) -> None:
    answer = judged(_job(**spec), ROOM, others=[DEFAULT])

    assert answer.verdict == "impossible"
    assert [reason.reason for reason in answer.reasons] == [words]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"priority": 50}, id="priority"),
        pytest.param({"preemptionPolicy": "PreemptLowerPriority"}, id="preemption-policy"),
        pytest.param({"priorityClassName": "system-node-critical", "priority": 2_000_001_000}, id="of-nodes"),
        pytest.param({"priorityClassName": "system-cluster-critical", "priority": 2_000_000_000}, id="of-the-cluster"),
    ],
)
def test_pod_that_repeats_its_class_fits(spec: Object) -> None:
    assert judged(_job(**spec), ROOM, others=[DEFAULT]).verdict == "fits"


def test_class_that_never_preempts_pushes_out_no_pod() -> None:
    meek = _class("meek", 50, preemptionPolicy="Never")

    answer = judged(_job(), ROOM, [pod("p", on="a", gpu="4")], [meek])

    assert (answer.verdict, answer.assumed) == ("busy", [])


@pytest.mark.parametrize("given", [None, 0, 7])
def test_priority_is_kept_where_no_class_could_be_read(given: int | None) -> None:
    job = _job(**({} if given is None else {"priority": given}))

    assert {role.spec.priority for role in applied(job, None).roles} == {given or 0}


@pytest.mark.parametrize("policy", [None, "Never", "PreemptLowerPriority"])
def test_pods_get_the_preemption_policy_of_their_class(policy: str | None) -> None:
    default = PriorityClass(kube.Metadata("standard"), 50, global_default=True, preemption_policy=policy)

    [spec, *_] = [role.spec for role in applied(_job(), {"standard": default}).roles]

    assert (spec.priority_class_name, spec.priority) == ("standard", 50)
    assert spec.preemption_policy == (policy or "PreemptLowerPriority")


def test_missing_class_is_named_by_the_charts_value() -> None:
    answer = judged(_job(priorityClassName="high"), ROOM, others=[DEFAULT])

    assert answer.next.startswith("priorityClassName: there is no PriorityClass high. Create it, or name another.")
