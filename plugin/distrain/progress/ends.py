"""Explain why Kubernetes has ended or refused a pod: evicted, preempted, rejected by kubelet, or on a lost node.

The program in the pod is not the cause, and its log does not help. A message comes from kubelet
(pkg/kubelet/eviction/helpers.go, pkg/kubelet/cm/devicemanager, pkg/kubelet/nodeshutdown), or from the controllers that
delete pods (tainteviction, podgc), which set the condition DisruptionTarget.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from distrain import kube
from distrain.progress.causes import Cause, quoted
from distrain.progress.start import role_of
from distrain.workload.kinds import FACTS

EVICTED = "Evicted"
SHM = "shm"
EMPTY_DIR = re.compile(r'^Usage of EmptyDir volume "(?P<volume>[^"]+)" exceeds the limit')
LOCAL_STORAGE = re.compile(r"ephemeral(?: local)? storage")
PRESSURE = re.compile(r"^The node (?:was low on resource: (?P<resource>[\w-]+)|had condition: \[(?P<condition>\w+))")
# kubelet gives one of these reasons when it rejects a pod that the scheduler has placed.
NO_ROOM = re.compile(r"^OutOf(?P<resource>\S+)$")
ADMISSION = {
    "UnexpectedAdmissionError": "see that the node's devices are healthy",
    "TopologyAffinityError": "ask for GPUs and CPUs that one NUMA node of the node has together",
    "NodeAffinity": "the node's labels have changed: correct {role}.nodeSelector, or label the node again",
}
SHUTDOWN = ("NodeShutdown", "Terminated", "Shutdown")
# For each reason of the condition DisruptionTarget: what happened, and what the user should do.
DISRUPTIONS = {
    "PreemptionByScheduler": (
        "a pod of higher priority took its place",
        "wait for room, or give the run a higher priorityClassName",
    ),
    "EvictionByEvictionAPI": ("it was evicted, as when its node is drained", "wait: its operator creates it again"),
    "DeletionByTaintManager": (
        "its node is lost, or has a taint that the pod does not tolerate",
        "bring the node back; if it is off for good, `kubectl delete node NODE` lets the pod start elsewhere",
    ),
    "DeletionByPodGC": ("its node no longer exists", "wait: its operator creates it again"),
    "TerminationByKubelet": ("its node shut down, or needed its room", "wait: its operator creates it again"),
}


def section_of(pod: kube.Pod) -> str:
    """Return the section of the chart's values that belongs to the pod's role."""
    return FACTS.roles.get(role_of(pod), role_of(pod))


def cause_of(pod: kube.Pod) -> Cause | None:
    """Return why Kubernetes has ended the pod, or None if Kubernetes has not ended it."""
    reason, message = pod.status.reason or "", quoted(pod.status.message)
    if reason == EVICTED:
        return Cause(f"{pod.metadata.name}: evicted: {message or 'no reason given'}", _after_eviction(pod, message))
    if pod.status.phase == "Failed" and (advice := _after_rejection(pod, reason)):
        return Cause(f"{pod.metadata.name}: kubelet rejects the pod: {message or reason}", advice)
    if pod.status.phase == "Failed" and reason in SHUTDOWN:
        return Cause(f"{pod.metadata.name}: its node shut down: {message or reason}", "bring the node back, or wait")
    return _disruption(pod)


def is_lost(pod: kube.Pod) -> bool:
    """Tell whether the pod's node does not answer.

    The node controller sets the condition Ready of such a node's pods to False (MarkPodsNotReady in
    pkg/controller/util/node). It does not change the condition ContainersReady, which still is as kubelet wrote it
    last.
    """
    return pod.status.phase == "Running" and _of(pod, "Ready") == "False" and _of(pod, "ContainersReady") == "True"


def lost_nodes(pods: Sequence[kube.Pod]) -> Cause | None:
    """Return the nodes that do not answer, or None if all nodes of these pods answer."""
    lost: dict[str, list[str]] = {}
    for pod in pods:
        if is_lost(pod):
            lost.setdefault(pod.spec.node_name or "", []).append(pod.metadata.name)
    if not lost:
        return None
    node, names = next(iter(lost.items()))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    nodes = f" (and {len(lost) - 1} more nodes)" if len(lost) > 1 else ""
    return Cause(
        f"node {node} does not answer: {names[0]}{more} ran there{nodes}",
        "bring the node back; if it is off for good, `kubectl delete node NODE` lets the pods start elsewhere",
    )


def _after_eviction(pod: kube.Pod, message: str) -> str:
    role = section_of(pod)
    if found := EMPTY_DIR.match(message):
        volume = found["volume"]
        return f"raise {role}.shm" if volume == SHM else f"raise the sizeLimit of volume {volume}, or write less there"
    if found := PRESSURE.match(message):
        what = found["resource"] or found["condition"]
        is_memory = what in ("memory", "MemoryPressure")
        return (
            f"set {role}.memory: kubelet first evicts pods that use more than they request"
            if is_memory
            else "free disk space on the node, or write less"
        )
    if LOCAL_STORAGE.search(message):
        return "log and write less: the LimitRange of the namespace sets this limit"
    return "wait: its operator creates it again"


def _after_rejection(pod: kube.Pod, reason: str) -> str:
    if found := NO_ROOM.match(reason):
        return f"wait: another pod took the node's {found['resource']} first"
    return ADMISSION.get(reason, "").format(role=section_of(pod))


def _disruption(pod: kube.Pod) -> Cause | None:
    found = [each for each in pod.status.conditions or () if each.type == "DisruptionTarget" and each.status == "True"]
    why, then = next((DISRUPTIONS[each.reason] for each in found if each.reason in DISRUPTIONS), ("", ""))
    return Cause(f"{pod.metadata.name}: {why}", then) if why else None


def _of(pod: kube.Pod, kind: str) -> str:
    return next((each.status for each in pod.status.conditions or () if each.type == kind), "")
