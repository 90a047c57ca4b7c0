"""Whether an installed job has started, told from its MPIJob, its pods and their events.

Pure functions over what `cluster.py` read; `wait.py` decides how long to be patient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from distrain import kube
from distrain.job import LAUNCHER, WORKER

ROLE_LABEL = "app.kubernetes.io/component"
IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Neither the container runtime nor time can mend these.
HOPELESS_REASONS = ("InvalidImageName", "ErrImageNeverPull")
# mpi-operator says so once and does not look at the job again.
REJECTED = "ValidationError"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a pod or the job does not start; `final` when waiting cannot help."""

    about: str
    words: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """What the cluster shows of the job at one moment."""

    job: kube.MPIJob
    pods: Sequence[kube.Pod]
    events: Sequence[kube.Event]


def has_started(sight: Sight, workers: int) -> bool:
    """All pods run, or the job has come to its end already, its workers gone with it."""
    if _condition(sight.job, "Succeeded"):
        return True
    return _running(sight.pods, LAUNCHER) >= 1 and _running(sight.pods, WORKER) >= workers


def progress(sight: Sight, workers: int) -> str:
    """Say in one line how far the start has come, and what the first waiting pod waits for."""
    launcher = "running" if _running(sight.pods, LAUNCHER) else "waiting"
    line = f"{_running(sight.pods, WORKER)} of {workers} workers running, launcher {launcher}"
    if not sight.pods:
        return f"{line}; no pod yet{_last_warning(sight)}"
    waiting = next((words for pod in sight.pods if not _runs(pod) for words in _waits_for(pod, sight.events)), "")
    return f"{line}; {waiting}" if waiting else line


def troubles(sight: Sight, s3_secret: str) -> Iterator[Trouble]:
    """Yield what keeps the job from starting; the same `about` comes again as long as the trouble lasts.

    `s3_secret` is the value s3.secretName, the one Secret that a pod of ours names through a value of its own.
    """
    if failed := _condition(sight.job, "Failed"):
        yield Trouble("job", _last_words(sight.pods) or f"the job failed: {_line(failed.message)}", final=True)
    for event in _events_of(sight.job.metadata.uid, sight.events):
        if event.reason == REJECTED:
            yield Trouble("job", f"mpi-operator rejects the job: {_line(event.message)}", final=True)
    for pod in sight.pods:
        yield from _pod_troubles(pod, s3_secret)


def unschedulable(sight: Sight) -> str | None:
    """Return the scheduler's words for the first pod that it cannot place."""
    for pod in sight.pods:
        for condition in pod.status.conditions or ():
            if condition.type == "PodScheduled" and condition.status == "False":
                return f"{pod.metadata.name}: {_line(condition.message)}"
    return None


def own_pods(job: kube.MPIJob, pods: Iterable[kube.Pod]) -> list[kube.Pod]:
    """Leave out what an earlier release of the same name left behind and Kubernetes is still removing."""
    born = job.metadata.creation_timestamp or ""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None and (pod.metadata.creation_timestamp or "") >= born
    ]


def _pod_troubles(pod: kube.Pod, s3_secret: str) -> Iterator[Trouble]:
    name = pod.metadata.name
    for status in _statuses(pod):
        waiting = status.state and status.state.waiting
        if not waiting or not waiting.reason:
            continue
        about, final = f"{name}/{status.name}", waiting.reason in HOPELESS_REASONS
        if waiting.reason in IMAGE_REASONS:
            yield Trouble(about, _cannot_pull(status, waiting, pod), final)
        elif waiting.reason in CONFIG_REASONS:
            yield Trouble(about, _cannot_start(waiting, pod, s3_secret))
        elif waiting.reason == "CrashLoopBackOff":
            yield Trouble(about, f"{name}: starts and ends again and again: {_end(status)}; see its log")
    if pod.status.phase == "Failed" and _role(pod) == WORKER:
        ends = [_end(status) for status in _statuses(pod)]
        words = _line(pod.status.message) or "; ".join(ends) or pod.status.reason
        yield Trouble(name, f"{name}: failed: {words}", final=True)


def _cannot_pull(status: kube.ContainerStatus, waiting: kube.Waiting, pod: kube.Pod) -> str:
    image = next((c.image for c in pod.spec.containers or () if c.name == status.name), None) or status.image
    return (
        f"image.repository: cannot pull {image}: {_line(waiting.message) or waiting.reason}; "
        "correct image.repository or image.tag, or name a registry login under image.pullSecrets"
    )


def _cannot_start(waiting: kube.Waiting, pod: kube.Pod, s3_secret: str) -> str:
    words = _line(waiting.message or waiting.reason)
    if s3_secret and f'secret "{s3_secret}" not found' in words:
        return f"s3.secretName: {words} in namespace {pod.metadata.namespace}; create it there, or correct the name"
    return f"{pod.metadata.name}: cannot start: {words}; correct the values, or create what they name"


def _waits_for(pod: kube.Pod, events: Sequence[kube.Event]) -> Iterator[str]:
    name = pod.metadata.name
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            yield f"{name}: {_line(condition.message)}"
    for event in reversed(list(_events_of(pod.metadata.uid, events))):
        # A placed pod keeps its old events of this kind.
        if event.reason != "FailedScheduling":
            yield f"{name}: {_line(event.message)}"
    for status in _statuses(pod):
        if status.state and status.state.waiting:
            yield f"{name}: {status.state.waiting.reason}"


def _last_warning(sight: Sight) -> str:
    words = [_line(event.message) for event in _events_of(sight.job.metadata.uid, sight.events)]
    return f": {words[-1]}" if words else ""


def _last_words(pods: Sequence[kube.Pod]) -> str | None:
    """Return the one line with which the launcher says why the job failed, or else the end of its log."""
    for pod in pods:
        for status in _statuses(pod) if _role(pod) == LAUNCHER else ():
            ended = status.state and status.state.terminated
            if ended and ended.message:
                lines = [line.strip() for line in ended.message.splitlines() if line.strip()]
                own = [line.removeprefix("distrain: ") for line in lines if line.startswith("distrain: ")]
                return (own or lines[-1:] or [""])[0]
    return None


def _end(status: kube.ContainerStatus) -> str:
    for state in (status.state, status.last_state):
        if state and state.terminated:
            end = state.terminated
            return f"{_line(end.message or end.reason)} (exit code {end.exit_code})"
    return "no reason given"


def _running(pods: Iterable[kube.Pod], role: str) -> int:
    return sum(1 for pod in pods if _role(pod) == role and _runs(pod))


def _runs(pod: kube.Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    statuses = pod.status.container_statuses or []
    running = [bool(status.state and status.state.running) for status in statuses]
    return pod.status.phase == "Running" and bool(running) and all(running)


def _statuses(pod: kube.Pod) -> list[kube.ContainerStatus]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def _role(pod: kube.Pod) -> str:
    return (pod.metadata.labels or {}).get(ROLE_LABEL, "")


def _condition(job: kube.MPIJob, kind: str) -> kube.Condition | None:
    return next((c for c in job.status.conditions or () if c.type == kind and c.status == "True"), None)


def _events_of(uid: str, events: Iterable[kube.Event]) -> Iterator[kube.Event]:
    return (event for event in events if event.involved_object.uid == uid)


def _line(words: str | None) -> str:
    return " ".join((words or "").split())
