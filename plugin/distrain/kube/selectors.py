"""Define label selectors and node selectors, and match labels with them as the API server does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from distrain.kube.objects import Kube

Labels = Mapping[str, str]
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


class Requirement(Kube):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Kube):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class NodeTerm(Kube):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Kube):
    node_selector_terms: list[NodeTerm] | None = None


def all_hold(requirements: Iterable[Requirement], labels: Labels) -> bool:
    return all(holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def holds(requirement: Requirement, value: str | None) -> bool:
    """Tell whether the value of a label meets the requirement. The value is None if the label is missing."""
    wanted = requirement.values or []
    match requirement.operator:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, value, wanted)
    return False


def selects(selector: LabelSelector | None, labels: Labels) -> bool:
    """Tell whether a selector matches labels.

    An empty selector matches every object. A missing selector (None) matches no object.
    """
    if selector is None:
        return False
    pairs = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in pairs) and all_hold(selector.match_expressions or (), labels)


def is_empty(selector: LabelSelector | None) -> bool:
    return selector is not None and not selector.match_labels and not selector.match_expressions


def with_label_keys(
    selector: LabelSelector | None, keys: Sequence[str] | None, operator: str, labels: Labels
) -> LabelSelector | None:
    """For each label key, add a requirement to the selector, with this operator and the pod's value of the label.

    Skip labels that the pod lacks.
    """
    if selector is None or not keys:
        return selector
    more = [Requirement(key, operator, [labels[key]]) for key in keys if key in labels]
    return replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])


def _compares(operator: str, value: str | None, wanted: list[str]) -> bool:
    found, bound = _integer(value), _integer(wanted[0] if len(wanted) == 1 else None)
    if found is None or bound is None:
        return False
    return found > bound if operator == "Gt" else found < bound


def _integer(text: str | None) -> int | None:
    """Parse a 64-bit integer; return None for any other text."""
    if text is None or not INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
