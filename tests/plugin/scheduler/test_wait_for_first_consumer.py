"""Test which verdicts stay undecided because claims wait for their first consumer, or because pods wait for a node."""

from __future__ import annotations

import pytest

from distrain.solver.problem import Affinity
from tests.plugin.check.judging import chart_job, examined, judged
from tests.plugin.check.volumes.test_own_claims import ONE_GIB
from tests.plugin.check.volumes.test_volume_claims import DELAYED, NODES, ZONE, _claim, _using, _volume
from tests.plugin.objects import Object, node, pod

BY_ZONE = [{"matchLabelExpressions": [{"key": ZONE, "values": ["1", "2"]}]}]
BY_ZONE_OR_RACK = [*BY_ZONE, {"matchLabelExpressions": [{"key": "rack", "values": ["1"]}]}]
MADE = {**DELAYED, "provisioner": "disk"}
KEPT = {**DELAYED, "provisioner": "kubernetes.io/no-provisioner"}
LATE: Object = {"storageClassName": "late"}
ROOM: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}


def test_pods_follow_the_first_one_into_its_zone() -> None:
    job = chart_job(workers=2, worker=_using("data"), launcher=_using("data"))
    _, snapshot = examined(job, NODES, [], [_claim(**LATE), {**MADE, "allowedTopologies": BY_ZONE}])

    affinity = Affinity((ZONE,), frozenset({"launcher", "worker"}), {ZONE: frozenset()})
    assert [snapshot.role(role).affinity for role in job.roles] == [affinity, affinity]


def test_one_pod_needs_no_other_pod() -> None:
    job = chart_job(workers=1, worker=_using("data"))
    _, snapshot = examined(job, NODES, [], [_claim(**LATE), {**MADE, "allowedTopologies": BY_ZONE}])

    assert snapshot.role(job.main).affinity is None


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        pytest.param([KEPT, _volume("v", zones=("1",), **LATE)], "fits", id="one-volume"),
        pytest.param(
            [KEPT, _volume("v", zones=("1",), **LATE), _volume("w", zones=("2",), **LATE)],
            "depends",
            id="either-volume",
        ),
        pytest.param([MADE, _volume("v", zones=("1",), **LATE)], "depends", id="a-volume-or-a-new-one"),
        pytest.param([MADE], "fits", id="a-new-one-for-everywhere"),
        pytest.param([{**MADE, "allowedTopologies": BY_ZONE_OR_RACK}], "depends", id="a-new-one-for-a-zone-or-a-rack"),
    ],
)
def test_volume_that_may_be_in_one_place_or_another_leaves_it_open(others: list[Object], verdict: str) -> None:
    answer = judged(chart_job(workers=2, gpus=1, worker=_using("data")), NODES, others=[_claim(**LATE), *others])

    assert (answer.verdict, answer.undecided) == (verdict, verdict == "depends")
    assert answer.next.startswith(
        "undecided where the volume of persistent volume claim data will be" if verdict == "depends" else ""
    )


def test_claims_that_may_take_the_same_volume_leave_it_open() -> None:
    worker, launcher = _using("data"), _using("more")
    others = [_claim(**LATE), _claim("more", **LATE), KEPT, _volume("v", zones=("1",), **LATE)]

    answer = judged(chart_job(workers=1, worker=worker, launcher=launcher), NODES, others=others)

    assert (answer.verdict, answer.undecided) == ("depends", True)


def test_own_claims_of_two_roles_are_not_one_claim_because_they_have_one_name() -> None:
    def scratch(storage_class: str) -> Object:
        spec = {**ONE_GIB, "storageClassName": storage_class}
        return {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}

    other = {**KEPT, "metadata": {"name": "other"}}
    volumes = [_volume(name, zones=("1",), storageClassName=name, **ROOM) for name in ("late", "other")]

    answer = judged(
        chart_job(workers=1, worker=scratch("late"), launcher=scratch("other")), NODES, others=[KEPT, other, *volumes]
    )

    assert answer.verdict == "fits"


def test_affinity_of_its_own_leaves_a_tied_role_open() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {}}
    rules = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    job = chart_job(workers=2, worker={**_using("data"), "affinity": rules})

    answer = judged(job, NODES, others=[_claim(**LATE), {**MADE, "allowedTopologies": BY_ZONE}])

    assert (answer.verdict, answer.undecided) == ("depends", True)


def _waiting(priority: int) -> Object:
    waiting = pod("p", phase="Pending")
    waiting["status"]["nominatedNodeName"] = "a"
    waiting["spec"].update({"nodeName": "", "priority": priority})
    waiting["metadata"]["labels"] = {"app.kubernetes.io/component": "worker"}
    return waiting


def test_nominated_pod_that_spread_counts_leaves_it_open() -> None:
    counted = {"matchLabels": {"app.kubernetes.io/component": "worker"}}
    spread = {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1, "labelSelector": counted}
    job = chart_job(workers=1, worker={"topologySpreadConstraints": [spread]})

    assert judged(job, NODES).verdict == "fits"
    answer = judged(job, NODES, [_waiting(0)])
    assert (answer.verdict, answer.undecided) == ("depends", True)
    assert answer.next.startswith("undecided whether the rules will count pods that wait for their node: 1.")


@pytest.mark.parametrize(("priority", "verdict"), [(0, "fits"), (50, "depends"), (100, "fits")])
def test_nominated_pod_between_the_jobs_priorities_leaves_it_open(priority: int, verdict: str) -> None:
    classes = [
        {"kind": "PriorityClass", "metadata": {"name": name}, "value": value} for name, value in (("a", 10), ("b", 100))
    ]
    job = chart_job(workers=1, worker={"priorityClassName": "a"}, launcher={"priorityClassName": "b"})

    assert judged(job, [node("a", gpu="8")], [_waiting(priority)], classes).verdict == verdict
    # A waiting pod will get a node or end, unless it belongs to a DaemonSet.
    assert judged(job, [node("a", gpu="0")], [_waiting(priority)], classes).verdict == "impossible"


@pytest.mark.parametrize("zones", [("1",), ("1", "2")])
def test_quota_in_use_leaves_open_what_the_nodes_leave_open(zones: tuple[str, ...]) -> None:
    volumes = [_volume(f"v{zone}", zones=(zone,), **LATE) for zone in zones]
    metadata = {"name": "full", "namespace": "team"}
    quota = {"kind": "ResourceQuota", "metadata": metadata, "status": {"hard": {"pods": "3"}, "used": {"pods": "1"}}}

    job = chart_job(workers=2, gpus=1, worker=_using("data"))
    answer = judged(job, NODES, others=[_claim(**LATE), KEPT, quota, *volumes])

    assert (answer.verdict, answer.undecided) == (("busy", False) if zones == ("1",) else ("depends", True))
