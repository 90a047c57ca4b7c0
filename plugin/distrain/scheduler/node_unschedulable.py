"""NodeUnschedulable: a cordoned node accepts only pods that tolerate the unschedulable taint."""

from __future__ import annotations

from distrain import kube
from distrain.scheduler.taint_toleration import tolerates

CORDON = kube.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_refused(node: kube.Node, pod: kube.PodSpec) -> bool:
    """Tell whether the node is cordoned and the pod does not tolerate the unschedulable taint."""
    return bool(node.spec.unschedulable) and not tolerates(pod, CORDON)
