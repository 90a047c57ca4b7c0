"""NodeAffinity: match a pod's node selector and required node affinity with a node's labels and name."""

from __future__ import annotations

from distrain import kube
from distrain.kube import selectors


def matches(node: kube.Node, pod: kube.PodSpec) -> bool:
    """Tell whether the node satisfies the pod's node selector and required node affinity."""
    found = node.metadata.labels or {}
    for key, value in (pod.node_selector or {}).items():
        if found.get(key) != value:
            return False
    affinity = pod.affinity and pod.affinity.node_affinity and pod.affinity.node_affinity.required
    return not affinity or selector_matches(affinity, node)


def selector_matches(selector: kube.NodeSelector, node: kube.Node) -> bool:
    """Tell whether one of the selector's terms matches the node."""
    return any(_term_matches(term, node) for term in selector.node_selector_terms or ())


def _term_matches(term: kube.NodeTerm, node: kube.Node) -> bool:
    """Tell whether every expression of the term is true. A term without expressions matches no node."""
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.metadata.name}
    return selectors.all_hold(expressions, node.metadata.labels or {}) and selectors.all_hold(fields, names)
