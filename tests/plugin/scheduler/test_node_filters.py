"""Test the scheduler's filters that look at one node and one pod. Also test which nodes may become usable again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.scheduler.messages import NO_MATCH, OTHER_NAME, UNSCHEDULABLE, UNTOLERATED
from distrain.scheduler.node_filters import first_refusal, recovered
from tests.plugin.objects import Object, node, nodes, tainted

GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"


def _spec(**fields: Any) -> kube.PodSpec:
    return msgspec.convert(fields, kube.PodSpec)


def test_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    (cordoned,) = nodes(node("a", cordoned=True))
    tolerant = _spec(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])

    assert first_refusal(cordoned, _spec()) == UNSCHEDULABLE
    assert first_refusal(cordoned, tolerant) is None


@pytest.mark.parametrize(
    ("found", "refusal"),
    [
        pytest.param(node("a", cordoned=True), None, id="cordoned"),
        pytest.param(tainted(node("a"), GPU_TAINT), None, id="no-schedule"),
        pytest.param(tainted(node("a"), "drain:NoExecute"), UNTOLERATED, id="no-execute"),
        pytest.param(node("b"), OTHER_NAME, id="another-node"),
        pytest.param(node("a", labels={"zone": "b"}), NO_MATCH, id="node-selector"),
    ],
)
def test_kubelet_admits_pods_with_a_node_name(found: Object, refusal: str | None) -> None:
    (only,) = nodes(found)
    selector = {"zone": "a"} if refusal == NO_MATCH else {}

    assert first_refusal(only, _spec(nodeName="a", nodeSelector=selector)) == refusal


def test_recovered_node_keeps_only_taints_set_by_users() -> None:
    taints = ("node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule", GPU_TAINT)
    (sick,) = nodes(tainted(node("a", cordoned=True), *taints))

    healthy = recovered(sick)

    assert [taint.key for taint in healthy.spec.taints or ()] == ["nvidia.com/gpu"]
    assert first_refusal(healthy, _spec()) == UNTOLERATED
