"""Find the last failure of a run's program since its last step: no step shows yet that the next start has helped.

A run whose program logs no steps counts as Running as soon as its pods run, so its phase does not show a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from distrain import kube
from distrain.progress import causes, ends
from distrain.progress.containers import OUT_OF_MEMORY, cannot_run, out_of_memory
from distrain.progress.containers import ends as ends_in
from distrain.progress.failures import explained_by
from distrain.progress.newest import seconds_behind
from distrain.progress.restarts import RESTART, retried
from distrain.progress.start import Log, main_container, role_of
from distrain.progress.steps import duration, seconds_of
from distrain.status.causes.stalled import Ranks
from distrain.workload.manifest import KEYGEN

# A failure is reported for RECENT seconds. By default, it also counts for job.maxRestarts for this time.
RECENT = 3600
# The exit code of a program that SIGTERM has stopped, as when its pod is moved to another node. This is no failure.
STOPPED = 143


class _Failed(Struct, frozen=True):
    """A failure at a time in seconds since 1970. `is_own` is false if another pod may have its cause."""

    at: float
    words: str
    is_own: bool


def last_failure(ranks: Ranks, step: float | None, now: float, kubectl_flags: str) -> str:
    """Return the last failure after the run's last step, and that the program is started again.

    Return an empty text if there is no recent failure. `step` and `now` are in seconds since 1970.
    """
    since = max(step or 0, now - RECENT)
    told = [*_in_logs(ranks, kubectl_flags), *_in_pods(ranks.pods, kubectl_flags)]
    recent = [each for each in told if each.at > since]
    last = max([each for each in recent if each.is_own] or recent, key=lambda each: each.at, default=None)
    return f"failed {duration(max(0, round(now - last.at)))} ago: {last.words}" if last else ""


def _in_logs(ranks: Ranks, kubectl_flags: str) -> Iterator[_Failed]:
    """Yield the last failure in each log after which the chart's script has started the program again."""
    for pod, log in zip(ranks.speakers, ranks.logs, strict=True):
        starts = list(RESTART.finditer(log.text))
        begin = starts[-2].end() if len(starts) > 1 else 0
        failed = retried(Log(pod, log.text, kubectl_flags, begin))
        then = log.time_at(starts[-1].start()) if starts else None
        if failed and then is not None:
            yield _Failed(then, failed.words, failed.is_own)


def _in_pods(pods: Sequence[kube.Pod], kubectl_flags: str) -> Iterator[_Failed]:
    """Yield the failures after which kubelet has restarted the container, or a controller has replaced the pod."""
    for pod in pods:
        for status, end in ends_in(pod):
            then = seconds_of(end.finished_at)
            is_program = status.name == main_container(pod) and role_of(pod) != KEYGEN
            if is_program and then is not None and end.exit_code not in (0, STOPPED):
                own = explained_by(end)
                words = f"{_why(pod, status, end, kubectl_flags)}; {_again(pod, status)}"
                yield _Failed(then + seconds_behind(pod), words, not own or causes.is_own(own[0]))


def _why(pod: kube.Pod, status: kube.ContainerStatus, end: kube.Terminated, kubectl_flags: str) -> str:
    """Return why the pod's program has ended, and what the user should do."""
    own, name = explained_by(end), pod.metadata.name
    if end.reason == OUT_OF_MEMORY:
        return out_of_memory(pod, status)
    if own and not causes.only_code(own[0]):
        return causes.with_next_step(own[0])
    if words := cannot_run(pod, status, end.message):
        return words
    if cause := ends.cause_of(pod):
        return cause.words
    why = own[0].partition(causes.SEE_LOG)[0] if own else f"ended with exit code {end.exit_code}"
    previous = "" if pod.status.phase == "Failed" else " --previous"
    return f"{name}: {why}; read `kubectl {kubectl_flags} logs {name}{previous}`"


def _again(pod: kube.Pod, status: kube.ContainerStatus) -> str:
    if pod.status.phase == "Failed":
        return "another pod tries again"
    return f"{pod.metadata.name} tries again (restart {status.restart_count} of its container)"
