"""Find the reasons why a job does not start, in its resources, pods, events and logs.

Pure functions over objects that `apiserver/cluster.py` has read. `wait.py` decides how long to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from distrain import kube
from distrain.progress import causes
from distrain.progress.restarts import retried, silent_storage
from distrain.progress.start import SPEAKERS, JobState, Log, condition, events_of, one_line, role_of, statuses
from distrain.workload.kinds import FACTS, INIT_CONTAINERS, KINDS
from distrain.workload.manifest import WORKER, Job

IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Reasons that waiting does not remove.
HOPELESS_REASONS = ("InvalidImageName", "ErrImageNeverPull")
OUT_OF_MEMORY = "OOMKilled"
# Exit codes from here on are those of a killed process. SIGTERM and lost nodes are no failures of the run itself.
SIGNALLED = 128
# After an event with one of these reasons, mpi-operator or training-operator ignores the job.
REJECTED = ("ValidationError", "FailedValidation")
# Kinds whose operator does not replace a failed worker pod.
LEAVES_FAILED_WORKERS = {kind.name for kind in KINDS if kind.leaves_failed_workers}
OWN_LINE = "distrain: "


class Failure(Struct, frozen=True):
    """Why a pod or the job does not start. `final` means that waiting cannot help."""

    about: str
    words: str
    final: bool = False


def failures(found: JobState, job: Job, s3_secret: str, earlier: AbstractSet[str] = frozenset()) -> Iterator[Failure]:
    """Yield each reason why the job does not start; `about` identifies a reason across calls.

    `s3_secret` is the value s3.secretName. No other Secret of the pods has its own chart value. `earlier` are the ends
    of containers that `ends_of` found before an upgrade.
    """
    for state in found.states:
        if failed := condition(state, "Failed"):
            yield Failure("job", _last_words(found.pods) or f"the job failed: {one_line(failed.message)}", final=True)
            return
    for event in events_of(found.states[0].metadata.uid, found.events):
        if (event.reason or "").endswith(REJECTED):
            yield Failure("job", f"the operator rejects the job: {one_line(event.message)}", final=True)
    for pod in _speakers_first(found.pods):
        yield from _own_failures(pod, earlier)
        yield from _pod_failures(pod, s3_secret)
        if pod.status.phase == "Failed" and role_of(pod) == WORKER and job.resources[0].kind in LEAVES_FAILED_WORKERS:
            yield Failure(pod.metadata.name, f"{pod.metadata.name}: failed: {_failure(pod)}", final=True)
    for log in found.logs:
        yield from _log_failures(log)


def ends_of(pods: Iterable[kube.Pod]) -> frozenset[str]:
    """Return a key for each ended container of the pods."""
    return frozenset(_key(pod, status, end) for pod in pods for status, end in _ends(pod))


def _speakers_first(pods: Iterable[kube.Pod]) -> list[kube.Pod]:
    return sorted(pods, key=lambda pod: role_of(pod) not in SPEAKERS)


def _ends(pod: kube.Pod) -> Iterator[tuple[kube.ContainerStatus, kube.Terminated]]:
    """Yield how the pod's containers ended: the present end, or the one before the last restart."""
    for status in statuses(pod):
        for state in (status.state, status.last_state):
            if state and state.terminated:
                yield status, state.terminated


def _key(pod: kube.Pod, status: kube.ContainerStatus, end: kube.Terminated) -> str:
    return f"{pod.metadata.uid}/{status.name}/{end.finished_at}"


def _own_failures(pod: kube.Pod, earlier: AbstractSet[str]) -> Iterator[Failure]:
    """Yield each end of a container that the container itself explains, also if it is restarted afterwards."""
    for status, end in _ends(pod):
        if end.exit_code == 0 or _key(pod, status, end) in earlier:
            continue
        about, own = f"{pod.metadata.name}/{status.name}", _own_lines(end) if end.exit_code < SIGNALLED else []
        if end.reason == OUT_OF_MEMORY:
            yield Failure(about, _out_of_memory(pod, status), final=True)
        elif own:
            yield Failure(about, causes.with_next_step(own[0]), final=causes.is_own(own[0]))
        elif why := causes.of_start(one_line(end.message)):
            yield Failure(about, _cannot_run(pod, status, why), final=True)


def _log_failures(log: Log) -> Iterator[Failure]:
    """Yield why the program fails, although it goes on. If it has lost another pod, that pod knows the cause."""
    if (failed := retried(log)) and failed.is_own:
        yield Failure(f"{failed.pod}/start", failed.words, final=True)
    if words := silent_storage(log):
        yield Failure(f"{log.pod.metadata.name}/storage", words)


def _out_of_memory(pod: kube.Pod, status: kube.ContainerStatus) -> str:
    section = FACTS.roles.get(role_of(pod), role_of(pod))
    smaller = ", or lower trainer.batchSize" if section == FACTS.roles[WORKER] else ""
    return (
        f"{section}.memory: out of memory: container {status.name} of {pod.metadata.name} was killed at its limit; "
        f"raise {section}.memory{smaller}"
    )


def _cannot_run(pod: kube.Pod, status: kube.ContainerStatus, why: str) -> str:
    value = "image.repository" if _is_first(pod, status) else f"{pod.metadata.name}: container {status.name}"
    return f"{value}: the image {_image(pod, status)} {why}"


def _pod_failures(pod: kube.Pod, s3_secret: str) -> Iterator[Failure]:
    name = pod.metadata.name
    for status in statuses(pod):
        waiting = status.state and status.state.waiting
        if not waiting or not waiting.reason:
            continue
        about, words = f"{name}/{status.name}", one_line(waiting.message)
        if waiting.reason in IMAGE_REASONS:
            yield Failure(about, _cannot_pull(status, waiting, pod), waiting.reason in HOPELESS_REASONS)
        elif waiting.reason in CONFIG_REASONS and (why := causes.of_start(words)):
            yield Failure(about, _cannot_run(pod, status, why), final=True)
        elif waiting.reason in CONFIG_REASONS:
            yield Failure(about, _cannot_start(waiting, pod, s3_secret))
        elif waiting.reason == "CrashLoopBackOff":
            yield Failure(about, f"{name}: starts and ends again and again: {_end(status)}; see its log")


def _failure(pod: kube.Pod) -> str:
    ends = [_end(status) for status in statuses(pod)]
    return one_line(pod.status.message) or "; ".join(ends) or pod.status.reason or "no reason given"


def _cannot_pull(status: kube.ContainerStatus, waiting: kube.Waiting, pod: kube.Pod) -> str:
    why = causes.of_pull(one_line(waiting.message)) or waiting.reason
    words = f"cannot pull {_image(pod, status)}: {why}"
    if added := INIT_CONTAINERS.get(status.name):
        advice = f"the operator adds this container: give it another image with its {added.flag}"
        return f"{pod.metadata.name}: {words}; {advice}"
    if not _is_first(pod, status):
        return f"{pod.metadata.name}: {words}; correct the image of container {status.name}"
    return (
        f"image.repository: {words}; "
        "correct image.repository or image.tag, or name a registry login under image.pullSecrets"
    )


def _image(pod: kube.Pod, status: kube.ContainerStatus) -> str:
    """Return the image in the pod's spec: the status has another name of it, or none."""
    containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    return next((c.image for c in containers if c.name == status.name and c.image), None) or status.image


def _is_first(pod: kube.Pod, status: kube.ContainerStatus) -> bool:
    """Tell whether this is the container that runs the value image."""
    return status.name == next((container.name for container in pod.spec.containers or ()), status.name)


def _cannot_start(waiting: kube.Waiting, pod: kube.Pod, s3_secret: str) -> str:
    words = one_line(waiting.message or waiting.reason)
    if s3_secret and f'secret "{s3_secret}" not found' in words:
        return f"s3.secretName: {words} in namespace {pod.metadata.namespace}; create it there, or correct the name"
    return f"{pod.metadata.name}: cannot start: {words}; correct the values, or create what they name"


def _last_words(pods: Iterable[kube.Pod]) -> str | None:
    """Return the failed pods' message that starts with "distrain: ", otherwise the last line of a message."""
    said = [end for pod in _speakers_first(pods) for end in _messages(pod)]
    own = sorted((words for end in said for words in _own_lines(end)), key=lambda words: not causes.is_own(words))
    return next(iter([*map(causes.with_next_step, own), *(_lines(end)[-1] for end in said)]), None)


def _messages(pod: kube.Pod) -> Iterator[kube.Terminated]:
    """Yield the ends of the pod's failed containers that have a termination message."""
    for status in statuses(pod):
        ended = status.state and status.state.terminated
        if ended and ended.exit_code and _lines(ended):
            yield ended


def _own_lines(end: kube.Terminated) -> list[str]:
    """Return the lines that the chart's scripts or the trainer wrote into the termination message."""
    return [line.removeprefix(OWN_LINE) for line in _lines(end) if line.startswith(OWN_LINE)]


def _lines(end: kube.Terminated) -> list[str]:
    return [line.strip() for line in (end.message or "").splitlines() if line.strip()]


def _end(status: kube.ContainerStatus) -> str:
    for state in (status.state, status.last_state):
        if state and state.terminated:
            end = state.terminated
            return f"{one_line(end.message or end.reason)} (exit code {end.exit_code})"
    return "no reason given"
