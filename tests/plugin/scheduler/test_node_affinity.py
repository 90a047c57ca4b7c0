"""Test NodeAffinity."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.scheduler.messages import NO_MATCH
from distrain.scheduler.node_filters import first_refusal
from tests.plugin.objects import node, nodes


def _spec(**fields: Any) -> kube.PodSpec:
    return msgspec.convert(fields, kube.PodSpec)


def _needs(*terms: dict[str, Any]) -> kube.PodSpec:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return _spec(affinity={"nodeAffinity": required})


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_node_selector_needs_every_label() -> None:
    (labelled,) = nodes(node("a", labels={"pool": "gpu", "zone": "1"}))

    assert first_refusal(labelled, _spec(nodeSelector={"pool": "gpu", "zone": "1"})) is None
    assert first_refusal(labelled, _spec(nodeSelector={"pool": "gpu", "zone": "2"})) == NO_MATCH


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

    assert (first_refusal(labelled, _needs(term)) is None) == matches


def test_affinity_terms_are_alternatives() -> None:
    (labelled,) = nodes(node("a", labels={"pool": "gpu"}))

    assert first_refusal(labelled, _needs(_expression("pool", "In", "cpu"), _expression("pool", "Exists"))) is None
