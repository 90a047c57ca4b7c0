"""Wait until an installed job trains, until all its pods have started, or until it is clear that this will fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct, field

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, GoneError, LateError, StartError, UnreachableError
from distrain.progress import first_step, logs
from distrain.progress.failures import Failure, failures
from distrain.progress.first_step import Program, Steady
from distrain.progress.restarts import retried
from distrain.progress.start import (
    JobState,
    Log,
    condition,
    counted_together,
    has_started,
    own_pods,
    pods_of,
    progress,
    shortened,
    unschedulable,
)
from distrain.progress.steps import trained_nothing
from distrain.workload.manifest import Job
from distrain.workload.wording import listed

# The values of --wait-for; each one names the event for which --wait waits.
FIRST_STEP, PODS = "first-step", "pods"
POLL_SECONDS = 1.0
# --wait waits for SECONDS if the user sets no limit.
SECONDS = 600.0
# A failure may go away: kubelet retries an image pull after 10 s, and a missing Secret may still be created. So --wait
# gives up only after the failure has lasted for GRACE_SECONDS.
GRACE_SECONDS = 20.0
# The API server may be unreachable for SILENCE_SECONDS, for example while it restarts.
SILENCE_SECONDS = 30.0


class Followed(Struct, frozen=True):
    """The job to follow, and the timeout in seconds. `s3_secret` is the value s3.secretName.

    `earlier` are the keys of container exits before an upgrade; see `failures.ends_of`.
    """

    job: Job
    release: str
    namespace: str
    s3_secret: str
    timeout: float
    waits_for: str = FIRST_STEP
    program: Program = Program()
    earlier: AbstractSet[str] = frozenset()


class Patience(Struct):
    """Remembers for how long each failure has lasted, and what it was when it was first seen."""

    since: dict[str, tuple[float, Failure]] = field(default_factory=dict)

    def exhausted(self, found: Iterable[Failure], now: float) -> Failure | None:
        """Return the first failure that is final or has lasted for GRACE_SECONDS; return None if there is none.

        A failure is forgotten if it is no longer found. `now` is in seconds, from a monotonic clock.
        """
        current = list(found)
        self.since = {failure.about: self.since.get(failure.about, (now, failure)) for failure in current}
        for failure in current:
            seen, first = self.since[failure.about]
            if failure.final:
                return failure
            if now - seen >= GRACE_SECONDS:
                # kubelet's first message about an image pull names the cause. Later messages may only mention the
                # back-off.
                return first
        return None


def until_started(cluster: Cluster, followed: Followed, say: Callable[[str], None]) -> None:
    """Wait until the job trains, or until its pods run; raise StartError if it fails first, or after the timeout.

    `say` receives a line whenever the progress has changed, and at the end a line about what was reached. Raises
    GoneError if someone deletes the job. Raises UnreachableError if the API server does not answer for SILENCE_SECONDS.
    """
    job, deadline = followed.job, time.monotonic() + followed.timeout
    patience, steady, told = Patience(), Steady(), ""
    for found in _polled(cluster, followed):
        now = time.monotonic()
        if reached := _reached(found, followed, steady, now):
            say(f"{followed.release}: {reached}: {_all_pods(job)}")
            if trained_nothing(log.text or "" for log in found.logs):
                say(f"{followed.release}: {first_step.TRAINED_NOTHING}; {first_step.TRAIN_MORE}")
            return
        if failure := patience.exhausted(failures(found, job, followed.s3_secret, followed.earlier), now):
            raise StartError(failure.words)
        line = f"{progress(found, job)}{first_step.awaited(found, job, followed.program.ranks)}"
        if line != told:
            say(line)
            told = line
        if time.monotonic() > deadline:
            raise LateError(_too_late(found, followed, line))


def _reached(found: JobState, followed: Followed, steady: Steady, now: float) -> str:
    """Return in words what the job has reached.

    Return an empty text if the job has not yet reached the state for which the user waits.
    """
    if followed.waits_for == FIRST_STEP:
        return first_step.reached(found, followed.job, followed.program, steady, now)
    return "all pods run" if has_started(found, followed.job) else ""


def _all_pods(job: Job) -> str:
    return listed([pods_of(roles) for roles in counted_together(job)])


def _polled(cluster: Cluster, followed: Followed) -> Iterator[JobState]:
    """Yield the state of the job every POLL_SECONDS, except while the API server does not answer."""
    heard = time.monotonic()
    while True:
        try:
            found = _read(cluster, followed)
        except UnreachableError as error:
            if isinstance(error, ForbiddenError) or time.monotonic() - heard > SILENCE_SECONDS:
                raise
        else:
            heard = time.monotonic()
            yield found
        time.sleep(POLL_SECONDS)


def _too_late(found: JobState, followed: Followed, line: str) -> str:
    late = f"--timeout: the run has not started in {followed.timeout:g} s"
    if followed.waits_for == FIRST_STEP and has_started(found, followed.job):
        last = shortened(first_step.last_line(found)) or line
        return f"--timeout: the run made no step in {followed.timeout:g} s: {last}; give a longer --timeout"
    unplaced = unschedulable(found)
    if unplaced:
        return f"{late}: {unplaced.removesuffix('.')}; free resources for its pods, or give a longer --timeout"
    return f"{late}: {line}; correct that, or give a longer --timeout"


def _read(cluster: Cluster, followed: Followed) -> JobState:
    states = list(_states(cluster, followed))
    pods = own_pods(states, cluster.release_pods(followed.namespace, followed.release))
    told = _logs(cluster, followed.namespace, states, pods) if followed.waits_for == FIRST_STEP else []
    return JobState(states, pods, _events(cluster, followed.namespace), told)


def _logs(cluster: Cluster, namespace: str, states: Iterable[kube.Workload], pods: list[kube.Pod]) -> list[Log]:
    """Return the logs of the pods that report steps, or the logs that may say why the job has failed.

    If one of these logs reports a failure, also return logs of other running pods.
    """
    has_failed = any(condition(state, "Failed") for state in states)
    speakers = logs.after_end(pods) if has_failed else logs.speakers(pods, ("Running", "Succeeded"))
    told = [logs.read(cluster, namespace, pod) for pod in speakers]
    if any(map(retried, told)):
        known = [log.pod.metadata.name for log in told]
        others = [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.name not in known]
        told += [logs.read(cluster, namespace, pod) for pod in others[: logs.MOST_READ]]
    return told


def _states(cluster: Cluster, followed: Followed) -> Iterator[kube.Workload]:
    for resource in followed.job.resources:
        found = cluster.workload(resource, followed.namespace)
        if found is None:
            raise GoneError(f"{resource.kind} {resource.name} is gone: someone removed it")
        yield found


def _events(cluster: Cluster, namespace: str) -> list[kube.Event]:
    """Return the events, or an empty list if the user has no permission to list events: events only explain delays."""
    try:
        return cluster.warnings(namespace)
    except ForbiddenError:
        return []
