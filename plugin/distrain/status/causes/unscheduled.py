"""Explain the scheduler's message about a pod that has no node, and say what the user should do.

The messages come from kube-scheduler's plugins (pkg/scheduler/framework/plugins in Kubernetes' sources), from its
preemption (pkg/scheduler/framework/preemption), and from coscheduling in scheduler-plugins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from distrain import kube
from distrain.kube.quantities import text
from distrain.progress.causes import Cause, quoted
from distrain.progress.ends import section_of
from distrain.progress.start import is_unseen, not_scheduled, role_of
from distrain.workload.manifest import WORKER
from distrain.workload.wording import counted, listed

# The end of the scheduler's message, after its reasons. It says whether pods of lower priority could make room by
# ending. If a claim does not exist, Kubernetes 1.34 also appends "not found" twice.
REST = re.compile(r"\.? (?:no new claims to deallocate|preemption: ).*$|(?<=not found)\. not found$")
INSUFFICIENT = re.compile(r"Insufficient ([\w./-]*\w)")
# On a node with the message NO_VICTIMS, the pod would have room if other pods ended.
NO_VICTIMS, NOT_HELPFUL = "No preemption victims found", "Preemption is not helpful"
GATED = "SchedulingGated"
UNBOUND_CLAIM = "unbound immediate PersistentVolumeClaims"
GANG = ("PodGroup", "sibling pods", "podGroup")
# coscheduling's message says what a gang lacks, with quantities in Go's form, such as nvidia.com/gpu:{{1 0} {<nil>}
# DecimalSI}.
GAP = re.compile(r"resource gap: map\[(?P<lacks>[^\]]*)\]")
LACK = re.compile(r"(?P<resource>[\w./-]+):\{\{(?P<number>\d+) (?P<scale>-?\d+)\}")
# Patterns for the scheduler's messages, each with what the user should do.
ADVICE = (
    (
        r"taints? \{node\.kubernetes\.io/(?:not-ready|unreachable)",
        "bring the nodes back: `kubectl describe nodes` says what they lack",
    ),
    (r"taints? \{node\.kubernetes\.io/\w+-pressure", "free memory or disk space on the nodes"),
    (
        r"untolerated taint|taints? that the pod didn't tolerate",
        "`kubectl describe nodes` shows the taints: tolerate them with {role}.tolerations, or remove them",
    ),
    (
        r"Pod's node affinity/selector",
        "correct {role}.nodeSelector or {role}.affinity, or give the nodes these labels",
    ),
    (r"were unschedulable", "wait, or let the nodes take pods again with `kubectl uncordon NODE`"),
    (
        r"free ports for the requested pod ports",
        "give the pods another port, or more nodes: a port serves one pod of a node",
    ),
    (
        r"pod topology spread constraints",
        "set {role}.topology.required=false, or add nodes with the label {role}.topology.key",
    ),
    (r"anti-affinity rules|pod affinity rules", "correct {role}.affinity or {role}.topology, or add nodes"),
    (
        r"persistentvolumeclaim \S+ not found",
        "create the claim in this namespace, or correct claimName in volumes",
    ),
    (r"persistentvolumeclaim \S+ (?:is being deleted|bound to)", "create the claim again, or name another in volumes"),
    (UNBOUND_CLAIM, "`kubectl {flags} describe pvc` says what the claim waits for"),
    (
        r"available persistent volumes to bind",
        "create a volume that the claim can bind, or correct its storageClassName",
    ),
    (
        r"PersistentVolume's node affinity|volume node affinity conflict|no available volume zone",
        "the volume is in another zone than the nodes: move it, or place the pods with {role}.nodeSelector",
    ),
    (r"ReadWriteOncePod", "end the other pod, or use a claim that several pods may mount (ReadWriteMany)"),
    (r"max volume count", "wait until pods with volumes end, or mount fewer"),
    (r"Too many pods", "wait until pods end, or add nodes"),
    (r"^no nodes available", "add a node: the cluster has none"),
)


class Place(Struct, frozen=True):
    """Parts of the advice to the user: kubectl's flags for the namespace, and the command for a smaller run."""

    kubectl_flags: str
    smaller: str


class Claim(Struct, frozen=True):
    """A claim that is not bound to a volume, and the last message of controllers about it."""

    name: str
    words: str


def cause_of(pods: Sequence[kube.Pod], claims: Sequence[Claim], place: Place) -> Cause | None:
    """Return why the first pod without a node got none, or None if every pod has a node."""
    told = [(pod, each) for pod in pods for each in not_scheduled(pod)]
    if not told:
        return _unseen(pods, place)
    # If a gang does not fit, the messages of most pods only say that another pod of the gang was not placed.
    pod, condition = next((each for each in told if not _is_of_gang(each[1])), told[0])
    if lacks := _lacks(condition.message or ""):
        return Cause(f"its pods start together or not at all, and lack {lacks}", _all_pods(place))
    cause = _of(pod, condition, claims, place)
    more = f" (and {counted(len(told) - 1, 'more pod')})" if len(told) > 1 else ""
    return Cause(f"{cause.why}{more}", cause.next)


def _of(pod: kube.Pod, condition: kube.Condition, claims: Sequence[Claim], place: Place) -> Cause:
    name, message = pod.metadata.name, condition.message or condition.reason or ""
    if condition.reason == GATED:
        return Cause(f"{name}: {quoted(message)}", "wait: what has set the gates, such as Kueue, removes them")
    reasons = quoted(REST.sub("", message))
    if UNBOUND_CLAIM in reasons and claims:
        return _of_claim(name, claims[0])
    if _is_of_gang(condition):
        return Cause(f"{name}: {reasons}", _all_pods(place))
    advice = _advice(reasons, pod, place)
    lacks = INSUFFICIENT.findall(reasons)
    is_full = NO_VICTIMS in message or NOT_HELPFUL not in message
    if lacks and is_full:
        return Cause(f"{name}: {reasons}", _more_room(pod, lacks[0], place))
    if lacks and not advice:
        value = _value(pod, lacks[0])
        return Cause(
            f"{name}: no node is large enough: {reasons}", f"lower {value}, or add a node that has so much {lacks[0]}"
        )
    return Cause(f"{name}: {reasons}", advice or f"free room, or make the run smaller with {place.smaller}")


def _lacks(message: str) -> str:
    """Return what a gang lacks, such as "1 nvidia.com/gpu", or an empty text if the message does not say it."""
    gap = GAP.search(message)
    return listed([f"{_amount(each)} {each['resource']}" for each in LACK.finditer(gap["lacks"])] if gap else [])


def _amount(lack: re.Match[str]) -> str:
    number, scale = int(lack["number"]), int(lack["scale"])
    if lack["resource"] == "memory":
        return text("memory", number * 10 ** max(scale, 0))
    return f"{number}m" if scale == -3 else f"{number * 10 ** max(scale, 0)}"


def _all_pods(place: Place) -> str:
    return f"free room for all pods of the run, or make it smaller with {place.smaller}"


def _of_claim(name: str, claim: Claim) -> Cause:
    words = f": {claim.words}" if claim.words else ""
    return Cause(
        f"{name}: the PersistentVolumeClaim {claim.name} is not bound{words}",
        "create a volume for it, or give the claim a storageClassName that makes one",
    )


def _advice(reasons: str, pod: kube.Pod, place: Place) -> str:
    found = (then for fragment, then in ADVICE if re.search(fragment, reasons))
    return next(found, "").format(role=section_of(pod), flags=place.kubectl_flags)


def _more_room(pod: kube.Pod, resource: str, place: Place) -> str:
    if role_of(pod) == WORKER:
        return f"free {resource}, or make the run smaller with {place.smaller}"
    return f"free {resource}, or lower {_value(pod, resource)}"


def _value(pod: kube.Pod, resource: str) -> str:
    key = "gpus" if "gpu" in resource else resource
    return f"{section_of(pod)}.{key}" if key in ("cpu", "memory", "gpus") else f"the request for {resource}"


def _is_of_gang(condition: kube.Condition) -> bool:
    return any(words in (condition.message or "") for words in GANG)


def _unseen(pods: Sequence[kube.Pod], place: Place) -> Cause | None:
    """Return the scheduler that has not looked at a pod yet, or None if it has looked at all pods."""
    for pod in pods:
        if is_unseen(pod):
            scheduler = pod.spec.scheduler_name or "default-scheduler"
            return Cause(
                f"{pod.metadata.name}: the scheduler {scheduler} has not looked at the pod",
                f"wait; if this lasts, start {scheduler}, or name another scheduler in the values",
            )
    return None
