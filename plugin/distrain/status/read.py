"""Read what explains the phase of a run: logs, events, and the queue or gang scheduler that holds the run back.

An ordinary user may read all these objects in a namespace. The result has a line for each kind of object that the user
has no permission to read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.pages import Ahead
from distrain.errors import ForbiddenError, NoLogError, NotFoundError, UnreachableError
from distrain.progress import logs
from distrain.progress.ends import is_lost
from distrain.progress.newest import newest_line, seconds_behind
from distrain.progress.start import condition, leaving_pods, main_container, own_pods
from distrain.status import holds
from distrain.status.evidence import claims_of, events_of
from distrain.status.facts import tells_steps
from distrain.status.figures import TimedLog, clock, timed
from distrain.status.ranks import tails_of, time_of
from distrain.status.run import Held, Observed, ranks_of
from distrain.status.sources import Source, Unread
from distrain.workload.chart_objects import instance_of
from distrain.workload.kinds import KINDS
from distrain.workload.live_job import LiveObject, live_job, name_of_job
from distrain.workload.manifest import KEYGEN

# If there are more than EXPLAINED_RUNS runs, the plugin reads only their jobs and pods.
EXPLAINED_RUNS = 32
AT_ONCE = 4
ENDS = {word for kind in KINDS for word in (kind.ends.succeeded, kind.ends.failed)}

T = TypeVar("T")
U = TypeVar("U")


def read_runs(cluster: Cluster, source: Source) -> list[Observed]:
    """Return what could be read of each run, by namespace and name.

    Raise ForbiddenError if the user has no permission to read any job.
    """
    unread = Unread()
    jobs = source.jobs(unread)
    if not jobs and unread:
        raise ForbiddenError(*unread.lines(cluster.target.helm_flags))
    before = len(unread)
    pods = source.pods(unread)
    has_pods = len(unread) == before
    by_run: dict[tuple[str, str], tuple[list[LiveObject], list[kube.Pod]]] = {}
    for job in jobs:
        by_run.setdefault(_run_of(job[1].metadata), ([], []))[0].append(job)
    # When a Plain job is deleted, the Job that created its SSH key may remain.
    by_run = {key: found for key, found in by_run.items() if not all(map(is_keygen, found[0]))}
    for pod in pods:
        if run := by_run.get(_run_of(pod.metadata)):
            run[1].append(pod)

    def explain(key: tuple[str, str]) -> Observed:
        plain = replace(_plain(key, *by_run[key]), has_pods=has_pods)
        return _explained(cluster, plain, Unread(unread))

    if len(by_run) > EXPLAINED_RUNS:
        plain, lines = [_plain(key, *by_run[key]) for key in sorted(by_run)], unread.lines(cluster.target.helm_flags)
        return [replace(each, has_pods=has_pods, has_logs=False, unread=tuple(lines)) for each in plain]
    return _at_once(explain, sorted(by_run))


def _run_of(metadata: kube.Metadata) -> tuple[str, str]:
    return metadata.namespace, instance_of(metadata.labels)


def is_keygen(found: LiveObject) -> bool:
    return found[0].kind == "Job" and found[0].name.endswith(f"-{KEYGEN}")


def _at_once(call: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Return the results of a function for all items. Several threads share the items."""
    results: dict[int, U] = {}
    numbers = iter(range(len(items)))

    def work() -> None:
        for number in numbers:
            results[number] = call(items[number])

    for thread in [Ahead(work) for _ in range(min(AT_ONCE, len(items)))]:
        thread.result()
    return [results[number] for number in range(len(items))]


def _plain(key: tuple[str, str], objects: list[LiveObject], pods: list[kube.Pod]) -> Observed:
    """Return a run without its logs, events and queues."""
    present, replaced = of_present(objects)
    states = [workload for _, workload in present]
    own, leaving = own_pods(states, pods), leaving_pods(states, pods)
    return Observed(key[1], key[0], present, own, leaving, replaced=replaced)


def _explained(cluster: Cluster, plain: Observed, unread: Unread) -> Observed:
    """Return a run with its logs, events and queues."""
    namespace = plain.namespace
    ended = has_ended_job(plain.objects)
    # If a pod's node does not answer, the API server takes half a minute to answer a request for the pod's log.
    reached = [pod for pod in plain.pods if not is_lost(pod)]
    speakers = logs.after_end(reached) if ended else logs.last_speakers(reached)
    asked = [Ahead(_log, cluster, namespace, pod) for pod in speakers]
    events = [] if ended else events_of(cluster, namespace, plain.objects, plain.pods, unread)
    held = Held() if ended else holds.read(cluster, namespace, plain.objects, plain.pods, unread)
    claims = [] if ended else claims_of(cluster, namespace, plain.pods, unread)
    told = [_read_log(*each, unread) for each in zip(asked, speakers, strict=True)]
    speakers, told = _newest_first(speakers, told)
    lines = tuple(unread.lines(cluster.target.helm_flags))
    seen = replace(plain, events=events, speakers=speakers, logs=told, held=held, claims=claims, unread=lines)
    return seen if ended else _with_tails(cluster, seen)


def _with_tails(cluster: Cluster, seen: Observed) -> Observed:
    """If a run seems to make no steps, return it with the last log lines of its other ranks."""
    job = live_job(seen.objects)
    ranks = ranks_of(seen, [log or TimedLog() for log in seen.logs], job)
    if not ranks.first.last and not tells_steps(job):
        return seen
    now = clock(ranks.first, time.time())
    there = time_of(cluster, seen.namespace, ranks, now)
    return replace(seen, behind=now - there, tails=tails_of(cluster, seen.namespace, ranks, there))


def _newest_first(
    speakers: list[kube.Pod], logs: list[TimedLog | None]
) -> tuple[list[kube.Pod], list[TimedLog | None]]:
    """Put the pod with the newest step first, because users should look at this pod."""
    told = [log or TimedLog() for log in logs]
    found = newest_line([log.text for log in told], [log.last for log in told], time.time())
    first = found[0] if found else 0
    order = sorted(range(len(logs)), key=lambda index: index != first)
    return [speakers[index] for index in order], [logs[index] for index in order]


def has_ended_job(objects: Iterable[LiveObject]) -> bool:
    """Tell whether a run's job has ended.

    For a Plain run, a separate Job creates the SSH key. It ends while the run starts, so it does not count.
    """
    jobs = [found[1] for found in objects if not is_keygen(found)]
    return any(condition(job, word) for job in jobs for word in ENDS)


def of_present(objects: Sequence[LiveObject]) -> tuple[list[LiveObject], list[LiveObject]]:
    """Return the objects of the run's current job, and those of an old job that is being deleted."""
    alive = [each for each in objects if each[1].metadata.deletion_timestamp is None] or [*objects]
    newest = max(alive, key=lambda each: (each[1].metadata.creation_timestamp or "", each[0].name))
    present = [each for each in alive if _name_of(each) == _name_of(newest)]
    replaced = [each for each in objects if each[1].metadata.deletion_timestamp and _name_of(each) != _name_of(newest)]
    return present, replaced


def job_of(objects: Sequence[LiveObject]) -> str:
    """Return the name of the job to which the objects belong."""
    return _name_of(objects[0])[1]


def _name_of(found: LiveObject) -> tuple[str, str]:
    """Return the kind and the name of the job to which an object belongs."""
    return found[0].kind, name_of_job(found[0])


def _log(cluster: Cluster, namespace: str, pod: kube.Pod) -> Any:
    """Return the last lines of a pod's log, or an empty text if it has no log.

    Raise an error if the log cannot be read.
    """
    try:
        return cluster.log(namespace, pod.metadata.name, main_container(pod), logs.LINES, timestamps=True)
    except (NoLogError, NotFoundError):
        return ""


def _read_log(ahead: Ahead, pod: kube.Pod, unread: Unread) -> TimedLog | None:
    try:
        text: str | None = unread.tolerate(ahead.result, None)
    except UnreachableError as error:
        unread.extend(error.messages)
        text = None
    return None if text is None else timed(text, seconds_behind(pod))
