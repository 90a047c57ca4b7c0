"""Test TaintToleration."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.scheduler.messages import UNTOLERATED
from distrain.scheduler.node_filters import first_refusal
from tests.plugin.objects import node, nodes, tainted

GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"


def _spec(**fields: Any) -> kube.PodSpec:
    return msgspec.convert(fields, kube.PodSpec)


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

    assert first_refusal(gpu_node, _spec(tolerations=[toleration])) == (None if tolerated else UNTOLERATED)


def test_prefer_no_schedule_taint_keeps_no_pod_off() -> None:
    (soft,) = nodes(tainted(node("a"), "busy:PreferNoSchedule"))

    assert first_refusal(soft, _spec()) is None
