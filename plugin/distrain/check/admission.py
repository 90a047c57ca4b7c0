"""Whether a node takes a pod at all, whatever room it has: cordon, taints, labels.

The rules and the words are those of kube-scheduler's filters NodeUnschedulable, NodeName, TaintToleration and
NodeAffinity, in this order.
"""

from __future__ import annotations

from msgspec.structs import replace

from distrain import kube
from distrain.check import labels

UNSCHEDULABLE = "node(s) were unschedulable"
OTHER_NAME = "node(s) didn't match the requested node name"
UNTOLERATED = "node(s) had untolerated taint(s)"
NO_MATCH = "node(s) didn't match Pod's node affinity/selector"

CORDON = kube.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
# Kubernetes sets and lifts these by itself, with the state of the node.
CONDITION_TAINTS = frozenset(
    f"node.kubernetes.io/{condition}"
    for condition in (
        "not-ready",
        "unreachable",
        "unschedulable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
        "network-unavailable",
    )
)


def refusal(node: kube.Node, pod: kube.PodSpec) -> str | None:
    """Return the scheduler's words for why the node does not take the pod, or None when it does."""
    if node.spec.unschedulable and not _tolerated(CORDON, pod):
        return UNSCHEDULABLE
    if pod.node_name and pod.node_name != node.metadata.name:
        return OTHER_NAME
    if untolerated(node, pod):
        return UNTOLERATED
    if not labels_match(node, pod):
        return NO_MATCH
    return None


def untolerated(node: kube.Node, pod: kube.PodSpec) -> list[kube.Taint]:
    return [taint for taint in node.spec.taints or () if _keeps_off(taint) and not _tolerated(taint, pod)]


def recovered(node: kube.Node) -> kube.Node:
    """Return the node as it is once it is healthy and not cordoned."""
    taints = [taint for taint in node.spec.taints or () if taint.key not in CONDITION_TAINTS]
    if not node.spec.unschedulable and taints == (node.spec.taints or []):
        return node
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))


def _keeps_off(taint: kube.Taint) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute")


def _tolerated(taint: kube.Taint, pod: kube.PodSpec) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod.tolerations or ())


def _tolerates(toleration: kube.Toleration, taint: kube.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == (taint.value or "")


def labels_match(node: kube.Node, pod: kube.PodSpec) -> bool:
    """Tell whether the node has what the pod's node selector and required node affinity ask for."""
    found = node.metadata.labels or {}
    for key, value in (pod.node_selector or {}).items():
        if found.get(key) != value:
            return False
    affinity = pod.affinity and pod.affinity.node_affinity and pod.affinity.node_affinity.required
    return not affinity or selects(affinity, node)


def selects(selector: kube.NodeSelector, node: kube.Node) -> bool:
    """Tell whether one of the selector's terms matches the node."""
    return any(_term_matches(term, node) for term in selector.node_selector_terms or ())


def _term_matches(term: kube.NodeTerm, node: kube.Node) -> bool:
    """Terms are alternatives; within one everything must hold, and an empty one matches nothing."""
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.metadata.name}
    return labels.all_hold(expressions, node.metadata.labels or {}) and labels.all_hold(fields, names)
