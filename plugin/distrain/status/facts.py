"""Read the facts that decide the phase of a run, from its job's objects, pods and logs at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from distrain import kube
from distrain.kube.pod_status import ENDED
from distrain.progress.failures import REJECTED
from distrain.progress.first_step import waits_for_workers
from distrain.progress.restarts import RESTART
from distrain.progress.start import (
    JobState,
    condition,
    events_of,
    is_unseen,
    lacks_pods,
    lasting,
    role_of,
    runs,
    statuses,
    unplaced,
    unreplaced,
)
from distrain.progress.steps import Progress, after_last_step
from distrain.progress.waiting import CONFIG_REASONS, IMAGE_REASONS
from distrain.status.figures import TimedLog
from distrain.status.phase import Facts
from distrain.workload.kinds import KINDS
from distrain.workload.manifest import MASTER, WORKER, Job
from distrain.workload.suspension import is_suspended

RANKS = (MASTER, WORKER)
# When a worker is evicted, mpi-operator marks the job as Failed for this reason, although the launcher goes on.
EVICTED = "MPIJobEvicted"
TRAINER = "distrain_trainer"


def facts_of(
    found: JobState,
    job: Job,
    queue: str = "",
    replaced: int | None = None,
    times: Sequence[TimedLog] = (),
) -> Facts:
    """Return the facts about a run. `queue` and `replaced` were found in other objects, and become fields of Facts.

    `times` has the same logs as `found`, but with the time of each line. The first of these logs has the newest step.
    """
    pods = [pod for pod in found.pods if role_of(pod) in {role.component for role in lasting(job)}]
    last, wanted = (times[0].last if times else None), workers_wanted(job)
    return Facts(
        wanted=wanted,
        made=sum(role_of(pod) in RANKS and pod.status.phase not in ENDED for pod in pods),
        end=_end(found),
        queue=queue,
        is_suspended=is_suspended(job),
        trained=_workers_at(last, job, wanted) if last and not _restarts(last, times) else None,
        replaced=replaced,
        waits=lacks_pods(pods, job) or any(map(waits, pods)),
        all_run=_all_run(pods, job) and not waits_for_workers(found),
        tells_steps=tells_steps(job) and all(log.text is not None for log in found.logs),
    )


def without_pods(facts: Facts, found: JobState) -> Facts:
    """Return the facts about a run if the user has no permission to read its pods.

    The operator's condition then decides whether it runs.
    """
    is_running = condition(found.states[0], "Running") is not None
    return replace(facts, waits=not is_running, all_run=is_running, tells_steps=False)


def workers_wanted(job: Job) -> int:
    return sum(role.replicas for role in lasting(job) if role.component in RANKS) or job.main.replicas


def workers_ready(pods: Iterable[kube.Pod]) -> int:
    return sum(role_of(pod) in RANKS and is_ready(pod) for pod in pods)


def is_ready(pod: kube.Pod) -> bool:
    ready = [each for each in pod.status.conditions or () if each.type == "Ready"]
    return pod.status.phase == "Running" and runs(pod) and all(each.status == "True" for each in ready)


def waits(pod: kube.Pod) -> bool:
    """Tell whether the pod has no node, or whether kubelet cannot start one of its containers."""
    if pod.status.phase != "Pending":
        return False
    reasons = [status.state.waiting.reason for status in statuses(pod) if status.state and status.state.waiting]
    return is_unseen(pod) or any(unplaced(pod)) or any(reason in IMAGE_REASONS + CONFIG_REASONS for reason in reasons)


def tells_steps(job: Job) -> bool:
    """Tell whether the pods run the trainer, which always writes JSON lines."""
    containers = [each for role in job.roles for each in role.spec.containers or ()]
    return any(TRAINER in (*(each.command or ()), *(each.args or ())) for each in containers)


def _all_run(pods: Sequence[kube.Pod], job: Job) -> bool:
    return not lacks_pods(pods, job) and all(map(runs, unreplaced(pods, job)))


def _end(found: JobState) -> str:
    """Return `Succeeded`, `Failed`, or an empty text for a job that has not ended.

    The job has succeeded as soon as its first object has succeeded.
    """
    if any(condition(found.states[0], kind.ends.succeeded) for kind in KINDS):
        return "Succeeded"
    failed = [each for state in found.states for kind in KINDS if (each := condition(state, kind.ends.failed))]
    goes_on = any(pod.status.phase not in ENDED for pod in found.pods)
    if any(each.reason != EVICTED or not goes_on for each in failed):
        return "Failed"
    events = events_of(found.states[0].metadata.uid, found.events)
    return "Failed" if not found.pods and any((event.reason or "").endswith(REJECTED) for event in events) else ""


def _restarts(last: Progress, logs: Sequence[TimedLog]) -> bool:
    """Tell whether the program has ended since its last step and is being started again in the same pod.

    `last` is the run's last step; the first of `logs` contains it. A restart in another log counts as well, unless its
    line is older than the last step.
    """
    for number, log in enumerate(logs):
        after = after_last_step(log.text)
        if restart := RESTART.search(after):
            then = log.time_at(len(log.text) - len(after) + restart.start())
            if number == 0 or then is None or last.unix_seconds is None or then > last.unix_seconds:
                return True
    return False


def _workers_at(last: Progress, job: Job, wanted: int) -> int:
    """Return the number of workers that made a step. If a line has no number of ranks, the wanted number is assumed."""
    workers, rest = divmod(last.world_size or 0, job.slots or 1)
    return workers if workers and not rest else wanted
