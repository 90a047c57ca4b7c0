"""Which nodes take a pod at all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.check.admission import NO_MATCH, UNSCHEDULABLE, UNTOLERATED, recovered, refusal
from tests.plugin.objects import node, nodes, tainted

GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"


def _spec(**fields: Any) -> kube.PodSpec:
    return msgspec.convert(fields, kube.PodSpec)


def _needs(*terms: dict[str, Any]) -> kube.PodSpec:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return _spec(affinity={"nodeAffinity": required})


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_cordoned_node_takes_only_who_tolerates_it() -> None:
    (cordoned,) = nodes(node("a", cordoned=True))
    tolerant = _spec(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])

    assert refusal(cordoned, _spec()) == UNSCHEDULABLE
    assert refusal(cordoned, tolerant) is None


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param({"key": "nvidia.com/gpu", "operator": "Exists"}, True, id="exists"),
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": "nvidia.com/gpu", "value": "present"}, True, id="equal-is-the-default"),
        pytest.param({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, True, id="this-effect"),
        pytest.param({"key": "nvidia.com/gpu", "value": "other"}, False, id="other-value"),
        pytest.param({"key": "amd.com/gpu", "operator": "Exists"}, False, id="other-key"),
        pytest.param({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False, id="other-effect"),
        pytest.param({"key": "nvidia.com/gpu", "operator": "Newer"}, False, id="operator-unknown-to-us"),
    ],
)
def test_taint_keeps_a_pod_off_unless_it_is_tolerated(toleration: dict[str, str], tolerated: bool) -> None:
    (gpu_node,) = nodes(tainted(node("a"), GPU_TAINT))

    assert refusal(gpu_node, _spec(tolerations=[toleration])) == (None if tolerated else UNTOLERATED)


def test_taint_that_only_asks_to_be_avoided_keeps_nobody_off() -> None:
    (soft,) = nodes(tainted(node("a"), "busy:PreferNoSchedule"))

    assert refusal(soft, _spec()) is None


def test_node_selector_needs_every_label() -> None:
    (labelled,) = nodes(node("a", labels={"pool": "gpu", "zone": "1"}))

    assert refusal(labelled, _spec(nodeSelector={"pool": "gpu", "zone": "1"})) is None
    assert refusal(labelled, _spec(nodeSelector={"pool": "gpu", "zone": "2"})) == NO_MATCH


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        pytest.param(_expression("pool", "In", "cpu", "gpu"), True, id="in"),
        pytest.param(_expression("pool", "In", "cpu"), False, id="not-among"),
        pytest.param(_expression("pool", "NotIn", "cpu"), True, id="not-in"),
        pytest.param(_expression("absent", "NotIn", "cpu"), True, id="not-in-matches-a-missing-label"),
        pytest.param(_expression("absent", "In", "cpu"), False, id="in-needs-the-label"),
        pytest.param(_expression("pool", "Exists"), True, id="exists"),
        pytest.param(_expression("pool", "DoesNotExist"), False, id="does-not-exist"),
        pytest.param(_expression("cards", "Gt", "4"), True, id="greater"),
        pytest.param(_expression("cards", "Gt", "8"), False, id="not-greater"),
        pytest.param(_expression("cards", "Lt", "9"), True, id="less"),
        pytest.param(_expression("cards", "Lt", "8"), False, id="not-less"),
        pytest.param(_expression("cards", "Near", "8"), False, id="operator-unknown-to-us"),
        pytest.param(_expression("pool", "Gt", "4"), False, id="no-number"),
        pytest.param({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}, True, id="name"),
        pytest.param({}, False, id="empty-term-matches-nothing"),
    ],
)
def test_required_node_affinity_is_judged_as_the_scheduler_does(term: dict[str, Any], matches: bool) -> None:
    (labelled,) = nodes(node("a", labels={"pool": "gpu", "cards": "8"}))

    assert (refusal(labelled, _needs(term)) is None) == matches


def test_affinity_terms_are_alternatives() -> None:
    (labelled,) = nodes(node("a", labels={"pool": "gpu"}))

    assert refusal(labelled, _needs(_expression("pool", "In", "cpu"), _expression("pool", "Exists"))) is None


def test_recovered_node_keeps_only_the_taints_that_somebody_set() -> None:
    taints = ("node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule", GPU_TAINT)
    (sick,) = nodes(tainted(node("a", cordoned=True), *taints))

    healthy = recovered(sick)

    assert [taint.key for taint in healthy.spec.taints or ()] == ["nvidia.com/gpu"]
    assert refusal(healthy, _spec()) == UNTOLERATED
