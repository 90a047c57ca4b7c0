"""Read what holds the pods of a run back: a queue of Kueue, or the PodGroup of a gang scheduler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from msgspec import field

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, NotFoundError
from distrain.kube.objects import Kube
from distrain.progress.start import one_line, unplaced
from distrain.status.run import Held
from distrain.workload.kinds import QUEUE_LABEL
from distrain.workload.live_job import LiveObject, live_job, name_of_job
from distrain.workload.suspension import is_suspended

KUEUE = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
JOB_UID = "kueue.x-k8s.io/job-uid"
VOLCANO = "scheduling.volcano.sh/v1beta1"
COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"
READY = "Ready"
# The `reason` of Volcano's events, and the part of the event's message that only counts the gang's pods.
UNSCHEDULABLE, GANG = "Unschedulable", "tasks in gang unschedulable"
# The PodGroups of scheduler-plugins select their pods with this label.
POD_GROUP = "scheduling.x-k8s.io/pod-group"

T = TypeVar("T")


class _Spec(Kube):
    queue: str = ""


class _Check(Kube):
    name: str = ""
    state: str = ""
    message: str | None = None


class _Status(Kube):
    phase: str = ""
    conditions: list[kube.Condition] | None = None
    admission_checks: list[_Check] | None = None


class PodGroup(Kube):
    """A gang scheduler's PodGroup."""

    metadata: kube.Metadata = field(default_factory=kube.Metadata)
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


class KueueWorkload(Kube):
    """The object that Kueue itself creates for a job in a queue."""

    status: _Status = field(default_factory=_Status)


class Tolerant(Protocol):
    def tolerate(self, read: Callable[[], T], otherwise: T) -> T: ...


def read(
    cluster: Cluster, namespace: str, objects: Sequence[LiveObject], pods: Sequence[kube.Pod], unread: Tolerant
) -> Held:
    """Return what holds the run back, or an empty answer if nothing does."""
    job = live_job(objects)
    queues = [queue for _, each in objects if (queue := (each.metadata.labels or {}).get(QUEUE_LABEL))]
    if queues and is_suspended(job):
        uids = [each.metadata.uid for _, each in objects]
        return Held(queues[0], unread.tolerate(lambda: _of_kueue(cluster, namespace, uids), ""))
    scheduler = next((role.spec.scheduler_name or "" for role in job.roles), "")
    if not pods or any(any(unplaced(pod)) for pod in pods):
        name = name_of_job(job.resources[0])
        if scheduler == "volcano":
            return unread.tolerate(lambda: _of_volcano(cluster, namespace, name), Held())
        if any(POD_GROUP in (pod.metadata.labels or {}) for pod in pods):
            return unread.tolerate(lambda: _of_coscheduling(cluster, namespace, name), Held())
    return Held()


def _of_kueue(cluster: Cluster, namespace: str, uids: Sequence[str]) -> str:
    """Return why Kueue does not admit the first job that it holds back, or an empty text if it holds back none."""
    workloads = [workload for uid in uids for workload in _workloads(cluster, namespace, uid)]
    conditions = [each for workload in workloads for each in workload.status.conditions or ()]
    held = [each for each in conditions if each.type == "QuotaReserved" and each.status == "False"]
    if held:
        return one_line(held[0].message)
    checks = [check for workload in workloads for check in workload.status.admission_checks or ()]
    return next((_of_check(check) for check in checks if check.state != READY), "")


def _of_check(check: _Check) -> str:
    """Return the message of an admission check. Kueue runs these checks after it has reserved the quota."""
    words = one_line(check.message)
    return f"admission check {check.name} is {check.state or 'not begun'}{f': {words}' if words else ''}"


def _workloads(cluster: Cluster, namespace: str, uid: str) -> list[KueueWorkload]:
    """Return Kueue's objects for a job, in the newest API version that the cluster serves."""
    for version in KUEUE:
        path, selector = paths.of_kind(version, "Workload", namespace), f"{JOB_UID}={uid}"
        with contextlib.suppress(NotFoundError):
            return cluster.read_list(path, KueueWorkload, "Kueue's workloads", labelSelector=selector)
    return []


def _of_volcano(cluster: Cluster, namespace: str, name: str) -> Held:
    """Return what Volcano says.

    Volcano holds a PodGroup back until it is Inqueue. After that the pods of the group wait for nodes.
    """
    group = cluster.read_one(paths.of_kind(VOLCANO, "PodGroup", namespace, name), PodGroup, f"PodGroup {name}")
    conditions = [each for each in group.status.conditions or () if each.type == "Unschedulable"]
    words = one_line(conditions[-1].message) if conditions else ""
    is_queued = group.status.phase in ("", "Pending")
    # If the user may not read events, the condition's message is shown instead.
    with contextlib.suppress(ForbiddenError):
        words = (_of_plugins(cluster, namespace, group) if is_queued else "") or words
    return Held((group.spec.queue or "default") if is_queued else "", f"Volcano: {words}" if words else "")


def _of_plugins(cluster: Cluster, namespace: str, group: PodGroup) -> str:
    """Return why a plugin of Volcano does not admit the PodGroup.

    Only an event says why; the PodGroup's conditions do not.
    """
    path, selector = paths.of_kind("v1", "Event", namespace), f"involvedObject.uid={group.metadata.uid}"
    events = cluster.read_list(path, kube.Event, f"events of namespace {namespace}", fieldSelector=selector)
    told = [event for event in events if event.reason == UNSCHEDULABLE and GANG not in (event.message or "")]
    return one_line(max(told, key=lambda event: event.last_timestamp or "").message) if told else ""


def _of_coscheduling(cluster: Cluster, namespace: str, name: str) -> Held:
    group = cluster.read_one(paths.of_kind(COSCHEDULING, "PodGroup", namespace, name), PodGroup, f"PodGroup {name}")
    words = [
        one_line(each.message) for each in group.status.conditions or () if each.status == "False" and each.message
    ]
    return Held(words=words[-1] if words else "")
