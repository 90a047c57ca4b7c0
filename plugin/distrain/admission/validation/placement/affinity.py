"""Validate the affinity of a pod to nodes and to other pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distrain import kube
from distrain.admission.validation.field_errors import invalid, required
from distrain.admission.validation.names import dns_label, of_each, qualified_name
from distrain.admission.validation.selectors import of_label_keys, of_label_selector, of_node_term

REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
LARGEST_WEIGHT = 100


def of_affinity(path: str, affinity: kube.TemplateAffinity, labels: Mapping[str, str]) -> Iterator[str]:
    """Validate all terms of an affinity; `labels` are the labels of the pod."""
    if affinity.node_affinity:
        yield from _of_nodes(f"{path}.nodeAffinity", affinity.node_affinity)
    if affinity.pod_affinity:
        yield from _of_pods(f"{path}.podAffinity", affinity.pod_affinity, labels)
    if affinity.pod_anti_affinity:
        yield from _of_pods(f"{path}.podAntiAffinity", affinity.pod_anti_affinity, labels)


def _of_nodes(path: str, affinity: kube.TemplateNodeAffinity) -> Iterator[str]:
    if affinity.required:
        terms, where = affinity.required.node_selector_terms or (), f"{path}.{REQUIRED}.nodeSelectorTerms"
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from of_node_term(f"{where}[{index}]", term, is_required=True)
    for index, each in enumerate(affinity.preferred or ()):
        where = f"{path}.{PREFERRED}[{index}]"
        yield from _of_weight(f"{where}.weight", each.weight)
        yield from of_node_term(f"{where}.preference", each.preference, is_required=False)


def _of_pods(path: str, affinity: kube.TemplatePodAffinity, labels: Mapping[str, str]) -> Iterator[str]:
    for index, term in enumerate(affinity.required or ()):
        yield from _of_pod_term(f"{path}.{REQUIRED}[{index}]", term, labels)
    for index, each in enumerate(affinity.preferred or ()):
        where = f"{path}.{PREFERRED}[{index}]"
        yield from _of_weight(f"{where}.weight", each.weight)
        yield from _of_pod_term(f"{where}.podAffinityTerm", each.pod_affinity_term, labels)


def _of_weight(path: str, weight: int) -> Iterator[str]:
    if not 1 <= weight <= LARGEST_WEIGHT:
        yield invalid(path, weight, f"must be in the range 1-{LARGEST_WEIGHT}")


def _of_pod_term(path: str, term: kube.PodTerm, labels: Mapping[str, str]) -> Iterator[str]:
    yield from of_label_selector(f"{path}.labelSelector", term.label_selector)
    yield from of_label_selector(f"{path}.namespaceSelector", term.namespace_selector)
    for name in term.namespaces or ():
        yield from of_each(f"{path}.namespace", name, dns_label)
    yield from of_label_keys(path, term, labels)
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from of_each(f"{path}.topologyKey", term.topology_key, qualified_name)
