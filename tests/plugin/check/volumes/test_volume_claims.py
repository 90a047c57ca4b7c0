"""Test whether pods with persistent volume claims start, and on which nodes."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.scheduler.messages import IN_USE, NO_VOLUME, NODE_CONFLICT, OTHER_ZONE
from tests.plugin.check.judging import chart_job, examined, judged
from tests.plugin.objects import Object, node, pod

ZONE = "topology.kubernetes.io/zone"
NODES = [node("a", gpu="8", labels={ZONE: "1"}), node("b", gpu="8", labels={ZONE: "2"})]
DELAYED = {"kind": "StorageClass", "metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
AT_ONCE = {"kind": "StorageClass", "metadata": {"name": "now"}, "provisioner": "disk", "volumeBindingMode": "Immediate"}


def _using(*claims: str) -> Object:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


def _claim(name: str = "data", *, bound_to: str = "", modes: tuple[str, ...] = (), **spec: Any) -> Object:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound_to else {}
    metadata = {"name": name, "namespace": "team", "annotations": annotations}
    spec = {"accessModes": list(modes), **({"volumeName": bound_to} if bound_to else {}), **spec}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _volume(name: str, *, zones: tuple[str, ...] = (), labels: Object | None = None, **spec: Any) -> Object:
    expression = {"key": ZONE, "operator": "In", "values": list(zones)}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    spec = {**(affinity if zones else {}), **spec}
    return {"kind": "PersistentVolume", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def _refusals(*others: Object, **worker: Any) -> list[str | None]:
    job = chart_job(workers=1, worker=worker or _using("data"))
    _, snapshot = examined(job, NODES, [], list(others))
    return [snapshot.refusal(each, job.main) for each in snapshot.nodes]


def test_bound_volume_leaves_the_nodes_of_its_zone() -> None:
    bound = _claim(bound_to="v")

    assert _refusals(bound, _volume("v", zones=("1",))) == [None, NODE_CONFLICT]
    assert _refusals(bound, _volume("v")) == [None, None]


@pytest.mark.parametrize(
    ("label", "zones", "refusals"),
    [
        pytest.param(ZONE, "1", [None, OTHER_ZONE], id="zone"),
        pytest.param(ZONE, "1__2", [None, None], id="several"),
        pytest.param("failure-domain.beta.kubernetes.io/zone", "2", [OTHER_ZONE, None], id="old-label"),
        pytest.param("topology.kubernetes.io/region", "r", [OTHER_ZONE, OTHER_ZONE], id="a-label-that-nodes-lack"),
    ],
)
def test_labels_of_a_volume_name_its_zones(label: str, zones: str, refusals: list[str | None]) -> None:
    assert _refusals(_claim(bound_to="v"), _volume("v", labels={label: zones})) == refusals


def test_nodes_without_any_zone_take_every_volume() -> None:
    job = chart_job(workers=1, worker=_using("data"))

    answer = judged(job, [node("a", gpu="8")], others=[_claim(bound_to="v"), _volume("v", labels={ZONE: "1"})])

    assert answer.verdict == "fits"


def test_volume_elsewhere_is_named_as_the_cause() -> None:
    job = chart_job(workers=1, worker=_using("data"))

    answer = judged(job, NODES, others=[_claim(bound_to="v"), _volume("v", zones=("3",))])

    assert answer.verdict == "impossible"
    assert [(each.nodes, each.reason) for each in answer.reasons] == [(2, NODE_CONFLICT)]
    assert answer.next == (
        "workers: 2 nodes would do, but for the volumes of its persistent volume claims. "
        "Use claims with reachable volumes, or add nodes."
    )


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param([_claim("other")], 'persistentvolumeclaim "data" not found', id="missing"),
        pytest.param(
            [
                {
                    **(leaving := _claim()),
                    "metadata": {**leaving["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
                }
            ],
            'persistentvolumeclaim "data" is being deleted',
            id="leaving",
        ),
        pytest.param(
            [_claim(bound_to="v"), _volume("w")],
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            id="volume-is-gone",
        ),
        pytest.param(
            [_claim(storageClassName="now"), AT_ONCE],
            "pod has unbound immediate PersistentVolumeClaims",
            id="not-bound-yet",
        ),
        pytest.param(
            [_claim(storageClassName="none"), AT_ONCE],
            'storageclass.storage.k8s.io "none" not found',
            id="no-such-class",
        ),
    ],
)
def test_claim_that_holds_pods_back_is_the_reason_on_every_node(others: list[Object], reason: str) -> None:
    answer = judged(chart_job(workers=1, worker=_using("data")), NODES, others=others)

    assert answer.verdict == "impossible"
    assert [(each.nodes, each.reason) for each in answer.reasons] == [(2, reason)]
    assert "data" in answer.next


def test_job_whose_claim_is_not_bound_yet_is_to_be_checked_again() -> None:
    """Such a job is impossible, not busy: it would not start either if all other pods ended."""
    others = [_claim(storageClassName="now"), AT_ONCE]

    answer = judged(chart_job(workers=1, worker=_using("data")), NODES, others=others)

    assert answer.verdict == "impossible"
    assert answer.next.endswith("describe pvc data`, and check again once it is bound.")


IN_ZONE_2 = [{"matchLabelExpressions": [{"key": ZONE, "values": ["2"]}]}]


@pytest.mark.parametrize(
    ("storage_class", "refusals"),
    [
        pytest.param({"provisioner": "disk"}, [None, None], id="anywhere"),
        pytest.param({"provisioner": "disk", "allowedTopologies": IN_ZONE_2}, [NO_VOLUME, None], id="one-zone"),
        pytest.param({"provisioner": "kubernetes.io/no-provisioner"}, [NO_VOLUME, NO_VOLUME], id="nothing-makes-one"),
    ],
)
def test_claim_that_waits_for_its_pod_goes_where_its_class_can(storage_class: Object, refusals: list[str]) -> None:
    assert _refusals(_claim(storageClassName="late"), {**DELAYED, **storage_class}) == refusals


@pytest.mark.parametrize(
    ("volume", "taken"),
    [
        pytest.param({}, True, id="fits"),
        pytest.param({"capacity": {"storage": "5Gi"}}, False, id="too-small"),
        pytest.param({"accessModes": ["ReadOnlyMany"]}, False, id="other-mode"),
        pytest.param({"storageClassName": "now"}, False, id="other-class"),
        pytest.param({"claimRef": {"name": "other"}}, False, id="somebody-elses"),
        pytest.param({"volumeMode": "Block"}, False, id="other-kind-of-volume"),
        pytest.param({"phase": "Available"}, True, id="available"),
        pytest.param({"phase": "Released"}, False, id="released"),
        pytest.param({"phase": "Failed"}, False, id="failed"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False, id="being-deleted"),
    ],
)
def test_claim_may_take_a_volume_that_is_there(volume: Object, taken: bool) -> None:
    asked: Object = {"storageClassName": "late", "resources": {"requests": {"storage": "10Gi"}}}
    base = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}
    there = _volume("v", zones=("1",), **{**base, **volume})
    there["status"] = {"phase": there["spec"].pop("phase", None)}
    there["metadata"]["deletionTimestamp"] = there["spec"].pop("deletionTimestamp", None)

    refusals = _refusals(_claim(modes=("ReadWriteOnce",), **asked), DELAYED, there)

    assert refusals == [None if taken else NO_VOLUME, NO_VOLUME]


def test_volume_of_a_pods_own_follows_its_class() -> None:
    template = {"volumeClaimTemplate": {"spec": {"storageClassName": "late"}}}
    scratch = {"volumes": [{"name": "scratch", "ephemeral": template}]}

    found = _refusals({**DELAYED, "provisioner": "disk", "allowedTopologies": IN_ZONE_2}, **scratch)

    assert found == [NO_VOLUME, None]


def test_claim_of_one_pod_is_in_use_until_that_pod_ends() -> None:
    job = chart_job(workers=1, worker=_using("data"))
    user = pod("p", on="b")
    user["spec"].update(_using("data"))
    others = [_claim(bound_to="v", modes=("ReadWriteOncePod",)), _volume("v")]

    answer = judged(job, NODES, [user], others)

    assert (answer.verdict, [each.reason for each in answer.reasons]) == ("busy", [IN_USE])
    assert judged(job, NODES, [], others).verdict == "fits"


def test_claim_of_one_pod_that_is_only_nominated_is_in_use_on_its_node() -> None:
    job = chart_job(workers=1, worker=_using("data"))
    user = pod("p")
    user["spec"].update(_using("data"))
    user["status"]["nominatedNodeName"] = "b"
    others = [_claim(bound_to="v", modes=("ReadWriteOncePod",)), _volume("v")]

    assert judged(job, NODES, [user], others).verdict == "fits"
    assert judged(job, [each for each in NODES if each["metadata"]["name"] == "b"], [user], others).verdict == "busy"


def test_claim_of_one_pod_cannot_be_shared_by_two() -> None:
    others = [_claim(bound_to="v", modes=("ReadWriteOncePod",)), _volume("v")]

    answer = judged(chart_job(workers=2, worker=_using("data")), NODES, others=others)

    assert answer.verdict == "impossible"
    assert answer.next == (
        "workers: only one pod may use persistent volume claim data (ReadWriteOncePod). "
        "Use a claim that more pods can share."
    )


def test_claim_whose_first_pod_decides_for_the_others_is_reported_as_not_judged() -> None:
    others = [_claim(storageClassName="late"), {**DELAYED, "provisioner": "disk"}]

    answer = judged(chart_job(workers=2, worker=_using("data")), NODES, others=others)

    assert answer.verdict == "fits"
    assert answer.unseen == ["that persistent volume claim data of 2 pods gets its volume where the first of them goes"]


def test_claims_that_a_file_does_not_hold_are_reported_as_not_judged() -> None:
    answer = judged(chart_job(workers=1, worker=_using("data")), NODES)

    assert answer.verdict == "fits"
    assert answer.unseen == ["PersistentVolumeClaims (not in the file)", "persistent volume claim data of the worker"]
