"""Find the reasons why a job does not start, in its resources, its pods, its events and its logs.

These are pure functions of objects that `apiserver/cluster.py` has read. `wait.py` decides how long the plugin waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from distrain import kube
from distrain.progress import causes
from distrain.progress.containers import OUT_OF_MEMORY, cannot_run, ends, out_of_memory, own_lines, speakers_first
from distrain.progress.ends import cause_of
from distrain.progress.job_end import words_of
from distrain.progress.restarts import retried, silent_storage
from distrain.progress.start import JobState, Log, condition, events_of, one_line, role_of, statuses
from distrain.progress.waiting import causes_of, end_of
from distrain.workload.kinds import KINDS
from distrain.workload.manifest import WORKER, Job

# An exit code of this or a higher number means that a signal killed the process. SIGTERM and lost nodes do not count as
# failures of the run itself.
SIGNALLED = 128
# After an event with one of these reasons, mpi-operator or training-operator ignores the job.
REJECTED = ("ValidationError", "FailedValidation")
# For these kinds of jobs, the operator does not replace a failed worker pod.
LEAVES_FAILED_WORKERS = {kind.name for kind in KINDS if kind.leaves_failed_workers}


class Failure(Struct, frozen=True):
    """Why a pod or the job does not start. `final` means that waiting would not help."""

    about: str
    words: str
    final: bool = False


def failures(found: JobState, job: Job, s3_secret: str, earlier: AbstractSet[str] = frozenset()) -> Iterator[Failure]:
    """Yield each reason why the job does not start.

    If a later call yields the same reason, its `about` is the same, so that the caller recognizes the reason.
    `s3_secret` is the value s3.secretName; messages about this Secret name the value. `earlier` are the keys that
    `ends_of` returned before an upgrade; these ends are left out.
    """
    for state in found.states:
        if failed := condition(state, "Failed"):
            yield Failure("job", words_of(failed, found), final=True)
            return
    for event in events_of(found.states[0].metadata.uid, found.events):
        if (event.reason or "").endswith(REJECTED):
            yield Failure("job", f"the operator rejects the job: {one_line(event.message)}", final=True)
    leaves_failed_workers = job.resources[0].kind in LEAVES_FAILED_WORKERS
    for pod in speakers_first(found.pods):
        yield from _own_failures(pod, earlier)
        for each in causes_of(pod, found.events, s3_secret):
            yield Failure(f"{pod.metadata.name}/{each.container}", each.words, each.final)
        if pod.status.phase == "Failed" and role_of(pod) == WORKER and leaves_failed_workers:
            yield Failure(pod.metadata.name, _failure(pod), final=True)
    for log in found.logs:
        yield from _log_failures(log)


def ends_of(pods: Iterable[kube.Pod]) -> frozenset[str]:
    """Return one key for each time that a container of the pods has ended."""
    return frozenset(_key(pod, status, end) for pod in pods for status, end in ends(pod))


def _key(pod: kube.Pod, status: kube.ContainerStatus, end: kube.Terminated) -> str:
    return f"{pod.metadata.uid}/{status.name}/{end.finished_at}"


def explained_by(end: kube.Terminated) -> list[str]:
    """Return the lines in which the chart's scripts or the trainer explain an end; [] if a signal ended the program."""
    return own_lines(end) if end.exit_code < SIGNALLED else []


def _own_failures(pod: kube.Pod, earlier: AbstractSet[str]) -> Iterator[Failure]:
    """Yield failures that the status of the pod's containers explains.

    A container's failure is yielded even if the container was restarted afterwards.
    """
    for status, end in ends(pod):
        if end.exit_code == 0 or _key(pod, status, end) in earlier:
            continue
        about, own = f"{pod.metadata.name}/{status.name}", explained_by(end)
        if end.reason == OUT_OF_MEMORY:
            yield Failure(about, out_of_memory(pod, status), final=True)
        elif own:
            yield Failure(about, causes.with_next_step(own[0]), final=causes.is_own(own[0]))
        elif words := cannot_run(pod, status, end.message):
            yield Failure(about, words, final=True)


def _log_failures(log: Log) -> Iterator[Failure]:
    """Yield why the program fails at each start, or why its storage does not answer, from the pod's log.

    If the program has only lost its connection to another pod, nothing is yielded, because that pod's log has the
    cause.
    """
    if (failed := retried(log)) and failed.is_own:
        yield Failure(f"{failed.pod}/start", failed.words, final=True)
    if words := silent_storage(log):
        yield Failure(f"{log.pod.metadata.name}/storage", words)


def _failure(pod: kube.Pod) -> str:
    """Return why a pod has failed, if its operator does not replace the pod."""
    if cause := cause_of(pod):
        return cause.words
    told = [end_of(status) for status in statuses(pod)]
    why = causes.quoted(pod.status.message) or ", ".join(told) or pod.status.reason or "no reason given"
    return f"{pod.metadata.name}: failed: {why}"
