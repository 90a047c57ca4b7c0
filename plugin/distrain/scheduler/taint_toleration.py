"""TaintToleration: a node's taints refuse the pods that do not tolerate them."""

from __future__ import annotations

from distrain import kube

# The node controller sets and removes these taints as the node's conditions change.
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
NO_EXECUTE = "NoExecute"


def untolerated(node: kube.Node, pod: kube.PodSpec) -> list[kube.Taint]:
    """Return the node's taints that refuse the pod. A taint with `PreferNoSchedule` refuses no pod."""
    return [taint for taint in node.spec.taints or () if _keeps_off(taint) and not tolerates(pod, taint)]


def tolerates(pod: kube.PodSpec, taint: kube.Taint) -> bool:
    """Tell whether one of the pod's tolerations matches the taint."""
    return any(_matches(toleration, taint) for toleration in pod.tolerations or ())


def _keeps_off(taint: kube.Taint) -> bool:
    return taint.effect in ("NoSchedule", NO_EXECUTE)


def _matches(toleration: kube.Toleration, taint: kube.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == (taint.value or "")
