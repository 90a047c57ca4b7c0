"""Say why a job has failed.

The messages of its programs come first, then what Kubernetes did, then the job's condition.
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.progress import causes, ends
from distrain.progress.containers import OUT_OF_MEMORY, cannot_run, lines, out_of_memory, own_lines, speakers_first
from distrain.progress.restarts import explained
from distrain.progress.start import JobState, one_line, statuses

# The Job controller's reason and training-operator's message if a job was active for longer than its deadline.
DEADLINE = ("DeadlineExceeded", "active longer than specified deadline")
BACKOFF = "backoff limit"


def words_of(failed: kube.Condition, found: JobState) -> str:
    """Return why the job failed, and what to do about it if this is known. `failed` is the job's condition Failed."""
    message = one_line(failed.message)
    if failed.reason == DEADLINE[0] or DEADLINE[1] in message:
        # Do not use the pods' logs: their last lines only say that the programs were stopped.
        return (
            "job.activeDeadlineSeconds: the run was active for longer than this; "
            "raise it: with checkpoint.uri the run goes on from its last checkpoint"
        )
    return next(_causes(found), None) or _of_condition(message)


def _causes(found: JobState) -> Iterator[str]:
    """Yield the known causes of the failure. The cause that explains most comes first."""
    pods = speakers_first(found.pods)
    said = [(pod, status, end) for pod in pods for status, end in _failed(pod)]
    own = [(pod, words) for pod, _, end in said for words in own_lines(end)]
    yield from (
        causes.with_next_step(words) for _, words in own if causes.is_own(words) and not causes.only_code(words)
    )
    for pod, status, end in said:
        if end.reason == OUT_OF_MEMORY:
            yield out_of_memory(pod, status)
        elif words := cannot_run(pod, status, end.message):
            yield words
    yield from (cause.words for pod in pods if pod.status.phase == "Failed" and (cause := ends.cause_of(pod)))
    yield from (explained(found.logs, pod, words) for pod, words in own)
    yield from (lines(end)[-1] for _, _, end in said if lines(end))


def _failed(pod: kube.Pod) -> Iterator[tuple[kube.ContainerStatus, kube.Terminated]]:
    """Yield those containers of the pod that have failed for good."""
    for status in statuses(pod):
        ended = status.state and status.state.terminated
        if ended and ended.exit_code:
            yield status, ended


def _of_condition(message: str) -> str:
    if BACKOFF in message:
        what = causes.quoted(message)
        return f"job.maxRestarts: no restart is left: {what}; read the run's record with `status --record`, or raise it"
    return f"the job failed: {message}"
