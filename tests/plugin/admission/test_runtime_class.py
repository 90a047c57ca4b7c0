"""Test the overhead, the node selector and the tolerations that pods get from their RuntimeClass, and refused pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from distrain.check.report import Report
from distrain.workload.manifest import Job
from tests.plugin.check.judging import chart_job, job_of, judged
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, mpi_job, namespace, node

ROOM = [node("a", {"ephemeral-storage": "9Gi"}, gpu="8")]
OVERHEAD = {"overhead": {"cpu": "100m"}}
KATA: dict[str, Any] = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}}
NOT_FOUND = 'pod rejected: RuntimeClass "nosuch" not found'


def _class(**fields: Any) -> Object:
    return {**KATA, **fields}


def _of_kata(**worker: Any) -> Job:
    return chart_job(worker={"runtimeClassName": "kata", **worker})


def test_overhead_without_a_runtime_class_is_refused() -> None:
    answer = judged(chart_job(worker=OVERHEAD), ROOM)

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason.startswith("pod rejected: Pod Overhead set without corresponding RuntimeClass")
    assert answer.next == "workers: its pods have an overhead, which only a RuntimeClass sets. Leave overhead out."


def test_overhead_beside_a_runtime_class_that_was_not_read_is_counted() -> None:
    answer = judged(_of_kata(**OVERHEAD), ROOM)

    assert answer.verdict == "fits"
    assert "the overhead and nodes of runtime class kata of the worker" in answer.unseen


def test_role_without_pods_may_have_any_overhead() -> None:
    assert judged(chart_job(workers=0, worker=OVERHEAD, version="v1"), ROOM).verdict == "fits"


def test_missing_class_is_refused() -> None:
    answer = judged(chart_job(worker={"runtimeClassName": "nosuch"}), ROOM, others=[KATA])

    assert (answer.verdict, [each.reason for each in answer.reasons]) == ("impossible", [NOT_FOUND])
    expected = "workers.runtimeClassName: there is no RuntimeClass nosuch. Create it, or name another."
    assert (answer.next, answer.unseen) == (expected, [])


def test_missing_class_of_all_pods_is_named_by_the_value_at_the_top() -> None:
    spec = {"runtimeClassName": "nosuch"}

    answer = judged(chart_job(worker=spec, launcher=spec), ROOM, others=[KATA])

    assert answer.next.startswith("runtimeClassName: there is no RuntimeClass nosuch.")


def test_class_of_the_manifest_is_not_judged() -> None:
    manifest = mpi_job(worker={"runtimeClassName": "kata"})

    answer = judged(job_of({**KATA, "handler": "kata"}, manifest), ROOM, others=[{**KATA, "metadata": {"name": "b"}}])

    assert answer.verdict == "fits"
    assert "the overhead and nodes of runtime class kata of the worker" in answer.unseen


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        pytest.param({}, "fits", id="nothing"),
        pytest.param({"overhead": {"podFixed": {"cpu": "1"}}}, "fits", id="overhead-that-fits"),
        pytest.param({"overhead": {"podFixed": {"cpu": "900"}}}, "impossible", id="overhead-beyond-every-node"),
        pytest.param({"scheduling": {"nodeSelector": {"kata": "yes"}}}, "impossible", id="nodes"),
    ],
)
def test_overhead_and_nodes_of_the_class_count(fields: Object, verdict: str) -> None:
    answer = judged(_of_kata(), ROOM, others=[_class(**fields)])

    assert (answer.verdict, answer.unseen) == (verdict, [])


def test_tolerations_of_the_class_count() -> None:
    tainted = {**ROOM[0], "spec": {"taints": [{"key": "kata", "value": "only", "effect": "NoSchedule"}]}}
    room = [tainted, node("b", gpu="0")]
    toleration = {"key": "kata", "operator": "Exists", "effect": "NoSchedule"}

    without = judged(_of_kata(), room, others=[KATA])
    tolerated = judged(_of_kata(), room, others=[_class(scheduling={"tolerations": [toleration]})])

    assert (without.verdict, tolerated.verdict) == ("impossible", "fits")


@pytest.mark.parametrize(
    ("worker", "fields", "words"),
    [
        pytest.param(
            OVERHEAD,
            {"overhead": {"podFixed": {"cpu": "200m"}}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            id="another-overhead",
        ),
        pytest.param(
            OVERHEAD,
            {},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            id="overhead-that-the-class-lacks",
        ),
        pytest.param(
            {"nodeSelector": {"disk": "slow"}},
            {"scheduling": {"nodeSelector": {"disk": "fast"}}},
            "conflict: runtimeClass.scheduling.nodeSelector[disk] = fast; pod.spec.nodeSelector[disk] = slow",
            id="another-node-label",
        ),
    ],
)
def test_pod_that_contradicts_its_class_is_refused(worker: Object, fields: Object, words: str) -> None:
    answer = judged(_of_kata(**worker), ROOM, others=[_class(**fields)])

    assert answer.verdict == "impossible"
    assert words in [each.reason for each in answer.reasons]


@pytest.mark.parametrize("worker", [{"overhead": {"cpu": "0.2"}}, {"nodeSelector": {"disk": "fast"}}])
def test_pod_that_repeats_its_class_fits(worker: Object) -> None:
    room = [{**ROOM[0], "metadata": {"name": "a", "labels": {"disk": "fast"}}}]
    given = _class(overhead={"podFixed": {"cpu": "200m"}}, scheduling={"nodeSelector": {"disk": "fast"}})

    assert judged(_of_kata(**worker), room, others=[given]).verdict == "fits"


def _live(api: FakeApi, folder: Path, found: Object | int) -> Report:
    api.answers |= {"/api/v1/nodes": ROOM, "/api/v1/pods": [], "/api/v1/namespaces/team": namespace("team")}
    api.answers |= {f"/api/v1/namespaces/team/{plural}": [] for plural in ("resourcequotas", "limitranges")}
    api.answers["/apis/node.k8s.io/v1/runtimeclasses/nosuch"] = found
    api.serve_mpi_jobs()
    job = chart_job(worker={"runtimeClassName": "nosuch"})
    return check(connect(Target(str(api.kubeconfig(folder)), "fake", "team")), job, "team")


@pytest.mark.parametrize(("found", "verdict"), [(404, "impossible"), (403, "fits"), (KATA, "fits")])
def test_class_of_the_cluster_is_read_by_its_name(
    api: FakeApi, tmp_path: Path, found: Object | int, verdict: str
) -> None:
    answer = _live(api, tmp_path, found)

    unseen = ["the overhead and nodes of runtime class nosuch of the worker"] if found == 403 else []
    assert (answer.verdict, answer.unseen) == (verdict, unseen)
