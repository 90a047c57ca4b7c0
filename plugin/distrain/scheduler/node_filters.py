"""Run the filters that look only at the node and the pod, in the scheduler's order.

These filters are NodeUnschedulable, NodeName, TaintToleration and NodeAffinity. A pod that has a nodeName bypasses the
scheduler. Kubelet admits such a pod, and applies NodeName, NodeAffinity and taints with NoExecute (Kubernetes
pkg/kubelet/lifecycle/predicate.go: generalFilter).
"""

from __future__ import annotations

from msgspec.structs import replace

from distrain import kube
from distrain.scheduler import node_affinity, node_unschedulable
from distrain.scheduler.messages import NO_MATCH, OTHER_NAME, UNSCHEDULABLE, UNTOLERATED
from distrain.scheduler.taint_toleration import CONDITION_TAINTS, NO_EXECUTE, untolerated


def first_refusal(node: kube.Node, pod: kube.PodSpec) -> str | None:
    """Return the message of the first filter that refuses the node, or None if all filters accept it."""
    if not pod.node_name and node_unschedulable.is_refused(node, pod):
        return UNSCHEDULABLE
    if pod.node_name and pod.node_name != node.metadata.name:
        return OTHER_NAME
    if any(taint.effect == NO_EXECUTE or not pod.node_name for taint in untolerated(node, pod)):
        return UNTOLERATED
    return None if node_affinity.matches(node, pod) else NO_MATCH


def recovered(node: kube.Node) -> kube.Node:
    """Return the node without its cordon and without taints for conditions, as if it were healthy."""
    taints = [taint for taint in node.spec.taints or () if taint.key not in CONDITION_TAINTS]
    if not node.spec.unschedulable and taints == (node.spec.taints or []):
        return node
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))
