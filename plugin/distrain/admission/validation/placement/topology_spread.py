"""Validate the topology spread constraints of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distrain import kube
from distrain.admission.validation.field_errors import POSITIVE, duplicate, invalid, not_supported, required
from distrain.admission.validation.selectors import of_label_keys, of_label_selector

FILTERS, SCORES = "DoNotSchedule", "ScheduleAnyway"
POLICIES = ("Honor", "Ignore")


def of_constraints(
    path: str, constraints: Sequence[kube.TemplateSpreadConstraint], labels: Mapping[str, str]
) -> Iterator[str]:
    """Validate all constraints of a pod with these labels.

    No two constraints may have the same topologyKey and whenUnsatisfiable.
    """
    kinds = [(each.topology_key, each.when_unsatisfiable) for each in constraints]
    for index, each in enumerate(constraints):
        yield from _of_constraint(f"{path}[{index}]", each)
        yield from of_label_keys(f"{path}[{index}]", each, labels)
        if kinds[index] in kinds[index + 1 :]:
            pair = "{" + ", ".join(kinds[index]) + "}"
            yield duplicate(f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}", pair)


def _of_constraint(path: str, found: kube.TemplateSpreadConstraint) -> Iterator[str]:
    if found.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", found.max_skew, POSITIVE)
    if not found.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    if found.when_unsatisfiable not in (FILTERS, SCORES):
        yield not_supported(f"{path}.whenUnsatisfiable", found.when_unsatisfiable, (FILTERS, SCORES))
    yield from _of_min_domains(f"{path}.minDomains", found)
    for key, policy in (
        ("nodeAffinityPolicy", found.node_affinity_policy),
        ("nodeTaintsPolicy", found.node_taints_policy),
    ):
        if policy is not None and policy not in POLICIES:
            yield not_supported(f"{path}.{key}", policy, POLICIES)
    yield from of_label_selector(f"{path}.labelSelector", found.label_selector)


def _of_min_domains(path: str, found: kube.TemplateSpreadConstraint) -> Iterator[str]:
    if found.min_domains is None:
        return
    if found.min_domains <= 0:
        yield invalid(path, found.min_domains, POSITIVE)
    if found.when_unsatisfiable != FILTERS:
        rule = f"can only use minDomains if whenUnsatisfiable={FILTERS}, not {found.when_unsatisfiable}"
        yield invalid(path, found.min_domains, rule)
