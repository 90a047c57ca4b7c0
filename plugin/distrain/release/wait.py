"""Wait until all pods of an installed job have started, or until it is clear that they will not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, StartError, UnreachableError
from distrain.release.start import Failure, JobState, failures, has_started, own_pods, progress, unschedulable
from distrain.workload.manifest import Job

POLL_SECONDS = 1.5
# Seconds for which a failure may last: kubelet retries an image pull after 10 s, and a missing Secret may still be
# created.
GRACE_SECONDS = 20.0
# Seconds for which the API server may be unreachable, for example while it restarts.
SILENCE_SECONDS = 30.0


class Followed(Struct, frozen=True):
    """The job to follow, and the timeout in seconds. `s3_secret` is the value s3.secretName."""

    job: Job
    release: str
    namespace: str
    s3_secret: str
    timeout: float


class Patience(Struct):
    """Remember when each failure was first seen."""

    since: dict[str, float] = field(default_factory=dict)

    def exhausted(self, found: Iterable[Failure], now: float) -> Failure | None:
        """Return the first failure that is final or has lasted GRACE_SECONDS, otherwise None.

        A failure that is no longer found is forgotten. `now` is in seconds, from a monotonic clock.
        """
        current = list(found)
        self.since = {failure.about: self.since.get(failure.about, now) for failure in current}
        for failure in current:
            if failure.final or now - self.since[failure.about] >= GRACE_SECONDS:
                return failure
        return None


def until_started(cluster: Cluster, followed: Followed, say: Callable[[str], None]) -> None:
    """Wait until the job has started; raise StartError if it cannot start or the timeout is over.

    `say` receives a line whenever the progress has changed. Raises UnreachableError if the API server is unreachable
    for SILENCE_SECONDS.
    """
    job, deadline = followed.job, time.monotonic() + followed.timeout
    patience, told = Patience(), ""
    for found in _polled(cluster, followed):
        if has_started(found, job):
            return
        if failure := patience.exhausted(failures(found, job, followed.s3_secret), time.monotonic()):
            raise StartError(failure.words)
        line = progress(found, job)
        if line != told:
            say(line)
            told = line
        if time.monotonic() > deadline:
            raise StartError(f"--timeout: not started in {followed.timeout:g} s: {_still_waiting(found, line)}")


def _polled(cluster: Cluster, followed: Followed) -> Iterator[JobState]:
    """Yield the state of the job every POLL_SECONDS; skip a poll that the API server does not answer."""
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


def _still_waiting(found: JobState, line: str) -> str:
    unplaced = unschedulable(found)
    return f"{unplaced}; free room, or give it more time" if unplaced else f"{line}; mend that, or give it more time"


def _read(cluster: Cluster, followed: Followed) -> JobState:
    states = list(_states(cluster, followed))
    pods = own_pods(states, cluster.release_pods(followed.namespace, followed.release))
    return JobState(states, pods, _events(cluster, followed.namespace))


def _states(cluster: Cluster, followed: Followed) -> Iterator[kube.Workload]:
    for resource in followed.job.resources:
        found = cluster.workload(resource, followed.namespace)
        if found is None:
            raise StartError(f"{resource.kind} {resource.name} is gone: someone removed it")
        yield found


def _events(cluster: Cluster, namespace: str) -> list[kube.Event]:
    """Return the warning events, or an empty list if the user may not list events, which only explain delays."""
    try:
        return cluster.warnings(namespace)
    except ForbiddenError:
        return []
