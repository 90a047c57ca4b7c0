"""Find out from a job's resources, pods and events whether the job has started, or why it has not.

Pure functions over objects that `apiserver/cluster.py` has read. `wait.py` decides how long to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from distrain import kube
from distrain.workload.kinds import INIT_CONTAINERS, KINDS
from distrain.workload.manifest import KEYGEN, ROLE_LABEL, WORKER, Job, PodRole

IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Reasons that waiting does not remove.
HOPELESS_REASONS = ("InvalidImageName", "ErrImageNeverPull")
# After an event with one of these reasons, mpi-operator or training-operator ignores the job.
REJECTED = ("ValidationError", "FailedValidation")
# Kinds whose operator does not replace a failed worker pod.
LEAVES_FAILED_WORKERS = {kind.name for kind in KINDS if kind.leaves_failed_workers}
# Roles whose termination messages explain a failed job best.
SPEAKERS = ("launcher", "chief", "master")


class Failure(Struct, frozen=True):
    """Why a pod or the job does not start. `final` means that waiting cannot help."""

    about: str
    words: str
    final: bool = False


class JobState(Struct, frozen=True):
    """The job's resources, pods and events at one moment; the first of `states` is the job's main resource."""

    states: Sequence[kube.Workload]
    pods: Sequence[kube.Pod]
    events: Sequence[kube.Event]


def has_started(found: JobState, job: Job) -> bool:
    """Tell whether all lasting pods run, or the job has already succeeded."""
    if any(_condition(found.states[0], kind.ends.succeeded) for kind in KINDS):
        return True
    return all(_running(found.pods, role) >= role.replicas for role in lasting(job))


def progress(found: JobState, job: Job) -> str:
    """Return one line with the number of running pods and the reason why the first waiting pod waits."""
    line = ", ".join(_how_many(found.pods, role, role is job.main) for role in reversed(lasting(job)))
    if not found.pods:
        return f"{line}; no pod yet{_last_warning(found)}"
    waiting = next((words for pod in found.pods if not _runs(pod) for words in _waits_for(pod, found.events)), "")
    return f"{line}; {waiting}" if waiting else line


def lasting(job: Job) -> list[PodRole]:
    """Return the roles whose pods exist as long as the job runs."""
    return [role for role in job.roles if role.name != KEYGEN]


def failures(found: JobState, job: Job, s3_secret: str) -> Iterator[Failure]:
    """Yield each reason why the job does not start; `about` identifies a reason across calls.

    `s3_secret` is the value s3.secretName. No other Secret of the pods has its own chart value.
    """
    for state in found.states:
        if failed := _condition(state, "Failed"):
            yield Failure("job", _last_words(found.pods) or f"the job failed: {_line(failed.message)}", final=True)
    for event in _events_of(found.states[0].metadata.uid, found.events):
        if (event.reason or "").endswith(REJECTED):
            yield Failure("job", f"the operator rejects the job: {_line(event.message)}", final=True)
    for pod in found.pods:
        yield from _pod_failures(pod, s3_secret)
        if pod.status.phase == "Failed" and role_of(pod) == WORKER and job.resources[0].kind in LEAVES_FAILED_WORKERS:
            yield Failure(pod.metadata.name, f"{pod.metadata.name}: failed: {_failure(pod)}", final=True)


def unschedulable(found: JobState) -> str | None:
    """Return the scheduler's message for the first pod that it cannot place, or None."""
    return next((words for pod in found.pods for words in _unscheduled(pod)), None)


def own_pods(states: Sequence[kube.Workload], pods: Iterable[kube.Pod]) -> list[kube.Pod]:
    """Leave out pods of an earlier release of the same name that Kubernetes is still deleting."""
    born = min(state.metadata.creation_timestamp or "" for state in states)
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None and (pod.metadata.creation_timestamp or "") >= born
    ]


def role_of(pod: kube.Pod) -> str:
    """Return the pod's role, or an empty string without the chart's label."""
    return (pod.metadata.labels or {}).get(ROLE_LABEL, "")


def _pod_failures(pod: kube.Pod, s3_secret: str) -> Iterator[Failure]:
    name = pod.metadata.name
    for status in _statuses(pod):
        waiting = status.state and status.state.waiting
        if not waiting or not waiting.reason:
            continue
        about, final = f"{name}/{status.name}", waiting.reason in HOPELESS_REASONS
        if waiting.reason in IMAGE_REASONS:
            yield Failure(about, _cannot_pull(status, waiting, pod), final)
        elif waiting.reason in CONFIG_REASONS:
            yield Failure(about, _cannot_start(waiting, pod, s3_secret))
        elif waiting.reason == "CrashLoopBackOff":
            yield Failure(about, f"{name}: starts and ends again and again: {_end(status)}; see its log")


def _failure(pod: kube.Pod) -> str:
    ends = [_end(status) for status in _statuses(pod)]
    return _line(pod.status.message) or "; ".join(ends) or pod.status.reason or "no reason given"


def _cannot_pull(status: kube.ContainerStatus, waiting: kube.Waiting, pod: kube.Pod) -> str:
    containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    image = next((c.image for c in containers if c.name == status.name), None) or status.image
    words = f"cannot pull {image}: {_line(waiting.message) or waiting.reason}"
    if added := INIT_CONTAINERS.get(status.name):
        advice = f"the operator adds this container: give it another image with its {added.flag}"
        return f"{pod.metadata.name}: {words}; {advice}"
    if status.name != next((container.name for container in pod.spec.containers or ()), status.name):
        return f"{pod.metadata.name}: {words}; correct the image of container {status.name}"
    return (
        f"image.repository: {words}; "
        "correct image.repository or image.tag, or name a registry login under image.pullSecrets"
    )


def _cannot_start(waiting: kube.Waiting, pod: kube.Pod, s3_secret: str) -> str:
    words = _line(waiting.message or waiting.reason)
    if s3_secret and f'secret "{s3_secret}" not found' in words:
        return f"s3.secretName: {words} in namespace {pod.metadata.namespace}; create it there, or correct the name"
    return f"{pod.metadata.name}: cannot start: {words}; correct the values, or create what they name"


def _unscheduled(pod: kube.Pod) -> Iterator[str]:
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            yield f"{pod.metadata.name}: {_line(condition.message)}"


def _waits_for(pod: kube.Pod, events: Sequence[kube.Event]) -> Iterator[str]:
    name = pod.metadata.name
    yield from _unscheduled(pod)
    for event in reversed(list(_events_of(pod.metadata.uid, events))):
        # FailedScheduling events remain after the pod has been placed.
        if event.reason != "FailedScheduling":
            yield f"{name}: {_line(event.message)}"
    for status in _statuses(pod):
        if status.state and status.state.waiting:
            yield f"{name}: {status.state.waiting.reason}"


def _last_warning(found: JobState) -> str:
    uids = [state.metadata.uid for state in found.states]
    words = [_line(event.message) for uid in uids for event in _events_of(uid, found.events)]
    return f": {words[-1]}" if words else ""


def _last_words(pods: Iterable[kube.Pod]) -> str | None:
    """Return the failed pods' message that starts with "distrain: ", otherwise the last line of a message."""
    speakers = sorted(pods, key=lambda pod: role_of(pod) not in SPEAKERS)
    said = [words for pod in speakers for words in _messages(pod)]
    own = [line.removeprefix("distrain: ") for words in said for line in words if line.startswith("distrain: ")]
    return next(iter([*own, *(words[-1] for words in said)]), None)


def _messages(pod: kube.Pod) -> Iterator[list[str]]:
    """Yield the lines of the termination message of each failed container."""
    for status in _statuses(pod):
        ended = status.state and status.state.terminated
        if ended and ended.exit_code and ended.message and ended.message.strip():
            yield [line.strip() for line in ended.message.splitlines() if line.strip()]


def _end(status: kube.ContainerStatus) -> str:
    for state in (status.state, status.last_state):
        if state and state.terminated:
            end = state.terminated
            return f"{_line(end.message or end.reason)} (exit code {end.exit_code})"
    return "no reason given"


def _how_many(pods: Iterable[kube.Pod], role: PodRole, main: bool) -> str:
    running = _running(pods, role)
    if role.replicas == 1 and not main:
        return f"{role.name} {'running' if running else 'waiting'}"
    return f"{running} of {role.pods(role.replicas)} running"


def _running(pods: Iterable[kube.Pod], role: PodRole) -> int:
    return sum(1 for pod in pods if role_of(pod) == role.component and _runs(pod))


def _runs(pod: kube.Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    statuses = pod.status.container_statuses or []
    running = [bool(status.state and status.state.running) for status in statuses]
    return pod.status.phase == "Running" and bool(running) and all(running)


def _statuses(pod: kube.Pod) -> list[kube.ContainerStatus]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def _condition(state: kube.Workload, kind: str) -> kube.Condition | None:
    return next((c for c in state.status.conditions or () if c.type == kind and c.status == "True"), None)


def _events_of(uid: str, events: Iterable[kube.Event]) -> Iterator[kube.Event]:
    return (event for event in events if event.involved_object.uid == uid)


def _line(words: str | None) -> str:
    return " ".join((words or "").split())
