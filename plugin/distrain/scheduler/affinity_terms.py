"""Handle the terms of pod affinity and anti-affinity: resolve namespaces and label keys, and match pods with terms."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from distrain import kube
from distrain.kube import selectors
from distrain.kube.selectors import Labels

# The API server sets this label on each namespace to the namespace's name.
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


class NamespaceLabels(Struct, frozen=True):
    """The labels of namespaces.

    If the labels could not be read (None), only one label is known: kubernetes.io/metadata.name.
    """

    known: Mapping[str, Labels] | None = None

    def labels_of(self, name: str) -> Labels | None:
        """Return the labels of a namespace, or None if it does not exist."""
        return {NAMESPACE_LABEL: name} if self.known is None else self.known.get(name)


UNREAD = NamespaceLabels()


class AffinityTerm(Struct, frozen=True):
    """A term of pod affinity or anti-affinity: its topology key, and how it selects pods by labels and namespaces."""

    key: str
    selector: kube.LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: kube.LabelSelector | None

    def matches(self, namespace: str, namespaces: NamespaceLabels, labels: Labels) -> bool:
        """Tell whether the term selects a pod of this namespace with these labels."""
        return self._is_in(namespace, namespaces) and selectors.selects(self.selector, labels)

    def _is_in(self, namespace: str, namespaces: NamespaceLabels) -> bool:
        if namespace in self.namespaces or selectors.is_empty(self.namespace_selector):
            return True
        found = namespaces.labels_of(namespace)
        return found is not None and selectors.selects(self.namespace_selector, found)


def stated_terms(spec: kube.PodSpec) -> list[kube.PodTerm]:
    """Return the required terms of a pod's affinity and anti-affinity to other pods."""
    affinity = spec.affinity or kube.Affinity()
    rules = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return [term for each in rules if each for term in each.required or ()]


def required_terms(
    affinity: kube.PodAffinity | None, namespace: str, labels: Labels | None = None
) -> tuple[AffinityTerm, ...]:
    """Return the required terms of a pod's affinity. A term that names no namespaces means the pod's own namespace.

    `labels` are the pod's labels, whose values are added to the selectors for matchLabelKeys. Leave `labels` out if the
    API server has already added them.
    """
    return tuple(_term(term, namespace, labels or {}) for term in (affinity and affinity.required) or ())


def _term(term: kube.PodTerm, namespace: str, labels: Labels) -> AffinityTerm:
    selector = selectors.with_label_keys(term.label_selector, term.match_label_keys, "In", labels)
    selector = selectors.with_label_keys(selector, term.mismatch_label_keys, "NotIn", labels)
    named = frozenset(term.namespaces or ())
    if not named and term.namespace_selector is None:
        named = frozenset([namespace])
    return AffinityTerm(term.topology_key, selector, named, term.namespace_selector)
