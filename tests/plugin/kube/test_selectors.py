"""Test label selectors, and requirements on one label."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.kube.selectors import holds, is_empty, selects

LABELS = {"app": "web", "cards": "8"}


def _selector(**fields: Any) -> kube.LabelSelector:
    return msgspec.convert(fields, kube.LabelSelector)


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        pytest.param(None, False, id="missing-selects-nothing"),
        pytest.param(_selector(), True, id="empty-selects-everything"),
        pytest.param(_selector(matchLabels={"app": "web"}), True, id="label"),
        pytest.param(_selector(matchLabels={"app": "web", "zone": "a"}), False, id="every-label"),
        pytest.param(_selector(matchExpressions=[_expression("app", "In", "db", "web")]), True, id="in"),
        pytest.param(_selector(matchExpressions=[_expression("zone", "NotIn", "a")]), True, id="not-in-without-label"),
        pytest.param(
            _selector(matchLabels={"app": "web"}, matchExpressions=[_expression("app", "DoesNotExist")]),
            False,
            id="both",
        ),
    ],
)
def test_selector_selects_what_has_the_labels(selector: kube.LabelSelector | None, selected: bool) -> None:
    assert selects(selector, LABELS) == selected


def test_only_a_selector_without_any_condition_is_empty() -> None:
    assert is_empty(_selector())
    assert not is_empty(_selector(matchLabels={"app": "web"}))
    assert not is_empty(None)


@pytest.mark.parametrize(
    ("value", "bound", "greater"),
    [
        pytest.param("9", "8", True, id="greater"),
        pytest.param("8", "8", False, id="equal"),
        pytest.param("1_0", "8", False, id="underscore-is-no-number"),
        pytest.param(" 9", "8", False, id="space-is-no-number"),
        pytest.param("9223372036854775808", "8", False, id="more-than-64-bits"),
        pytest.param("-7", "-8", True, id="negative"),
        pytest.param(None, "8", False, id="missing"),
    ],
)
def test_numbers_are_compared_as_integers_of_64_bits(value: str | None, bound: str, greater: bool) -> None:
    assert holds(kube.Requirement("cards", "Gt", [bound]), value) == greater
