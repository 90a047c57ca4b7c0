"""Test the claims that are created for a single pod.

They come from ephemeral volumes and from a StatefulSet's claim templates.
"""

from __future__ import annotations

from typing import Any

import pytest

from distrain.check.report import Report
from distrain.scheduler.messages import NO_VOLUME, NODE_CONFLICT, NOT_BOUND
from tests.plugin.check.judging import examined, job_of, judged
from tests.plugin.objects import Object, node, template

ZONE = "topology.kubernetes.io/zone"
NODES = [node(name, cpu="2", labels={ZONE: zone}) for name, zone in (("a", "1"), ("b", "2"))]
# The API server requires these fields in every claim.
ONE_GIB = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WAITS = {"provisioner": "disk", "volumeBindingMode": "WaitForFirstConsumer"}


def _set(pods: int, spec: Object, *, is_ephemeral: bool = False) -> Object:
    """Return a StatefulSet whose pods request 2 CPUs each. Each pod of the StatefulSet has a volume of its own."""
    spec = {**ONE_GIB, **spec}
    scratch = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}
    claims = [] if is_ephemeral else [{"metadata": {"name": "scratch"}, "spec": spec}]
    pod = template("web", {"requests": {"cpu": "2"}}, scratch if is_ephemeral else {})
    selector = {"matchLabels": pod["metadata"]["labels"]}
    wanted = {"replicas": pods, "volumeClaimTemplates": claims, "selector": selector, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": wanted}


def _class(name: str, **fields: Any) -> Object:
    return {"kind": "StorageClass", "metadata": {"name": name}, **fields}


def _in_zones(*zones: str) -> Object:
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]}


def _volume(name: str, zone: str, storage_class: str = "") -> Object:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, "storageClassName": storage_class}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **affinity}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _answer(pods: int, spec: Object, *others: Object, is_ephemeral: bool = False) -> Report:
    return judged(job_of(_set(pods, spec, is_ephemeral=is_ephemeral)), NODES, others=list(others))


@pytest.fixture(params=[True, False], ids=["ephemeral", "claim-template"])
def is_ephemeral(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_own_claims_follow_their_class(is_ephemeral: bool) -> None:
    job = job_of(_set(1, {"storageClassName": "late"}, is_ephemeral=is_ephemeral))

    _, state = examined(job, NODES, [], [_class("late", **WAITS, **_in_zones("2"))])

    assert [state.refusal(each, job.main) for each in state.nodes] == [NO_VOLUME, None]


def test_own_claim_of_a_class_that_is_not_there_does_not_fit(is_ephemeral: bool) -> None:
    answer = _answer(1, {"storageClassName": "gone"}, _class("late", **WAITS), is_ephemeral=is_ephemeral)

    assert (answer.verdict, answer.reasons[0].reason) == (
        "impossible",
        'storageclass.storage.k8s.io "gone" not found',
    )
    assert answer.next == (
        "web: volume scratch asks for storage class gone, which is not there. Create the class, or name another."
    )


def test_own_claim_without_a_class_gets_the_default_class(is_ephemeral: bool) -> None:
    default = _class("late", **WAITS, **_in_zones("3"))
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}

    assert _answer(1, {}, default, is_ephemeral=is_ephemeral).reasons[0].reason == NO_VOLUME
    assert _answer(1, {}, _class("late", **WAITS), is_ephemeral=is_ephemeral).reasons[0].reason == NOT_BOUND


def test_pods_with_volumes_of_their_own_need_not_be_together(is_ephemeral: bool) -> None:
    answer = _answer(
        2, {"storageClassName": "late"}, _class("late", **WAITS, **_in_zones("1", "2")), is_ephemeral=is_ephemeral
    )

    assert answer.verdict == "fits"


def test_pods_that_compete_for_volumes_are_undecided(is_ephemeral: bool) -> None:
    local = _class("late", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")
    volumes = [_volume("v1", "1", "late"), _volume("v2", "2", "late")]

    one, two = (_answer(n, {"storageClassName": "late"}, local, *volumes, is_ephemeral=is_ephemeral) for n in (1, 2))

    assert (one.verdict, two.verdict, two.undecided) == ("fits", "depends", True)


def test_volume_that_is_made_before_the_pod_is_reported_as_not_judged(is_ephemeral: bool) -> None:
    answer = _answer(1, {"storageClassName": "now"}, _class("now", provisioner="disk"), is_ephemeral=is_ephemeral)

    words = "where the volume of persistent volume claim scratch, yet to be created, can be"
    assert (answer.verdict, words in answer.unseen) == ("fits", True)


@pytest.mark.parametrize(
    ("pods", "zone", "verdict", "reasons"),
    [
        pytest.param(1, "3", "impossible", [NODE_CONFLICT], id="nowhere"),
        pytest.param(1, "2", "fits", [], id="somewhere"),
        pytest.param(2, "2", "depends", [], id="the-other-pod-is-free"),
    ],
)
def test_claim_that_an_earlier_set_has_left_keeps_its_volume(
    pods: int, zone: str, verdict: str, reasons: list[str]
) -> None:
    metadata = {"name": "scratch-web-0", "namespace": "team", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": "v"}}

    answer = _answer(pods, {"storageClassName": "late"}, _class("late", **WAITS), claim, _volume("v", zone))

    assert (answer.verdict, [each.reason for each in answer.reasons]) == (verdict, reasons)
