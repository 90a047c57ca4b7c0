"""Validate label and node selectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distrain import kube
from distrain.admission.validation.field_errors import forbidden, invalid, required
from distrain.admission.validation.names import dns_subdomain, label_value, of_each, of_labels, qualified_name

FIELD = "metadata.name"
UNKNOWN = "not a valid selector operator"
OF_IN = "must be specified when `operator` is 'In' or 'NotIn'"
OF_EXISTS = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
OF_COMPARISON = "must be specified single value when `operator` is 'Lt' or 'Gt'"
OF_FIELD = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"


def of_label_selector(path: str, selector: kube.LabelSelector | None) -> Iterator[str]:
    """Validate a selector of pods or namespaces."""
    if selector:
        yield from of_labels(f"{path}.matchLabels", selector.match_labels)
        for index, each in enumerate(selector.match_expressions or ()):
            yield from _of_expression(f"{path}.matchExpressions[{index}]", each)
            yield from _of_values(f"{path}.matchExpressions[{index}].values", each)


def of_label_keys(
    path: str, rule: kube.PodTerm | kube.TemplateSpreadConstraint, labels: Mapping[str, str]
) -> Iterator[str]:
    """Validate the fields matchLabelKeys and mismatchLabelKeys of a rule. `labels` are the labels of the pod."""
    selector, added = rule.label_selector, (rule.match_label_keys or ())
    mismatched = rule.mismatch_label_keys or () if isinstance(rule, kube.PodTerm) else ()
    for field, keys in (("matchLabelKeys", added), ("mismatchLabelKeys", mismatched)):
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        for index, key in enumerate(keys if selector else ()):
            yield from of_each(f"{path}.{field}[{index}]", key, qualified_name)
    own = selector or kube.LabelSelector()
    stated = {*(own.match_labels or ()), *(each.key for each in own.match_expressions or ())}
    for index, key in enumerate(added):
        if key in stated and key in labels:
            yield invalid(f"{path}[{index}]", key, "exists in both matchLabelKeys and labelSelector")
    for index, key in enumerate(added):
        if key in mismatched:
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def of_node_term(path: str, term: kube.NodeTerm, *, is_required: bool) -> Iterator[str]:
    """Validate a term of a node selector. The API server does not check the values in a preferred term."""
    for index, each in enumerate(term.match_expressions or ()):
        yield from _of_expression(f"{path}.matchExpressions[{index}]", each, compares=True)
        if is_required:
            yield from _of_values(f"{path}.matchExpressions[{index}].values", each)
    for index, each in enumerate(term.match_fields or ()):
        yield from _of_field(f"{path}.matchFields[{index}]", each)


def _of_expression(path: str, found: kube.Requirement, *, compares: bool = False) -> Iterator[str]:
    match found.operator:
        case "In" | "NotIn":
            if not found.values:
                yield required(f"{path}.values", OF_IN)
        case "Exists" | "DoesNotExist":
            if found.values:
                yield forbidden(f"{path}.values", OF_EXISTS)
        case "Gt" | "Lt" if compares:
            if len(found.values or ()) != 1:
                yield required(f"{path}.values", OF_COMPARISON)
        case _:
            yield invalid(f"{path}.operator", found.operator, UNKNOWN)
    yield from of_each(f"{path}.key", found.key, qualified_name)


def _of_values(path: str, found: kube.Requirement) -> Iterator[str]:
    for index, value in enumerate(found.values or ()):
        yield from of_each(f"{path}[{index}]", value, label_value)


def _of_field(path: str, found: kube.Requirement) -> Iterator[str]:
    if found.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", found.operator, UNKNOWN)
    elif len(found.values or ()) != 1:
        yield required(f"{path}.values", OF_FIELD)
    if found.key != FIELD:
        yield invalid(f"{path}.key", found.key, "not a valid field selector key")
        return
    for index, value in enumerate(found.values or ()):
        yield from of_each(f"{path}.values[{index}]", value, dns_subdomain)
