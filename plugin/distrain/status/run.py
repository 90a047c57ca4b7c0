"""Put together what is known of one run at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec
from msgspec import Struct

from distrain import kube
from distrain.kube.resource import Resource
from distrain.progress.start import JobState, lasting, running
from distrain.progress.steps import seconds_since
from distrain.record.read import Record
from distrain.status import recorded
from distrain.status.facts import RANKS, facts_of, without_pods, workers_ready
from distrain.status.figures import Figures, TimedLog, figures
from distrain.status.phase import Phase, Word, decide
from distrain.status.reasons import Evidence, Place, Reason, reason_of, split
from distrain.status.unscheduled import Claim
from distrain.workload.kinds import PLAIN
from distrain.workload.live_job import LiveObject, in_order, live_job
from distrain.workload.manifest import Job

# Why a run is in its phase if only its job can be read.
NO_PODS = "its pods may not be read, so only the job's own conditions are known"


class Held(Struct, frozen=True):
    """What holds a run's pods back: the queue, if the run is in one and not admitted, and a message."""

    queue: str = ""
    words: str = ""


class Observed(Struct, frozen=True):
    """What was read of a run. `objects` are those of its present job, `replaced` those of one that is being deleted.

    `has_pods` is False if the user may not read pods. `leaving` are pods that Kubernetes is deleting, `claims` those of
    a pod without a node that are not bound.
    """

    release: str
    namespace: str
    objects: Sequence[LiveObject]
    pods: Sequence[kube.Pod] = ()
    leaving: Sequence[kube.Pod] = ()
    claims: Sequence[Claim] = ()
    events: Sequence[kube.Event] = ()
    logs: Sequence[TimedLog | None] = ()
    speakers: Sequence[kube.Pod] = ()
    replaced: Sequence[LiveObject] = ()
    held: Held = Held()
    has_pods: bool = True
    unread: tuple[str, ...] = ()


class Group(Struct, frozen=True):
    """The pods of one role: how many are ready, None if they may not be read, and how many the job asks for."""

    role: str
    ready: int | None
    wanted: int


class Run(Struct, frozen=True):
    """The status of a run. `unread` has a line for each thing that the user may not read.

    `efficiency` is the speed as a share of that of as many single ranks. `from_record` tells that the figures come from
    the run's record, as the logs tell none.
    """

    name: str
    namespace: str
    kind: str
    job: str
    api_version: str
    phase: Phase
    queue: str
    why: str
    next: str
    age_seconds: int | None
    workers: Group
    others: tuple[Group, ...]
    figures: Figures
    tells_steps: bool
    efficiency: float | None = None
    from_record: bool = False
    unread: tuple[str, ...] = ()

    @property
    def has_failed(self) -> bool:
        return self.phase.word == Word.FAILED

    @property
    def has_ended(self) -> bool:
        return self.phase.word in (Word.SUCCEEDED, Word.FAILED)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer of -o json, whose names do not change."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "kind": self.kind,
            "job": self.job,
            "phase": self.phase.word.value,
            "from_workers": self.phase.before,
            "to_workers": self.phase.after,
            "queue": self.queue or None,
            "why": self.why or None,
            "next": self.next or None,
            "age_seconds": self.age_seconds,
            "workers": {"ready": self.workers.ready, "wanted": self.workers.wanted},
            "others": [msgspec.to_builtins(group) for group in self.others],
            **msgspec.to_builtins(self.figures),
            "efficiency": self.efficiency,
            "from_record": self.from_record,
            "unread": list(self.unread),
        }


def lacks_logs(seen: Observed, run: Run) -> bool:
    """Tell whether the pods of a run that has ended or is suspended are gone, and with them the logs of its steps."""
    is_over = run.has_ended or run.phase.word == Word.SUSPENDED
    return is_over and seen.has_pods and not seen.pods and run.figures.step is None


def run_of(seen: Observed, place: Place, now: float, record: Record | None = None) -> Run:
    """Return the status of a run; `now` is in seconds since 1970. `record` is the run's record, if it was read."""
    job = live_job(seen.objects)
    found = JobState(
        [workload for _, workload in in_order(seen.objects)],
        seen.pods,
        seen.events,
        [place.log(pod, log.text if log else None) for pod, log in zip(seen.speakers, seen.logs, strict=True)],
        seen.leaving,
    )
    replaced = live_job(seen.replaced).main.replicas if seen.replaced else None
    facts = facts_of(found, job, seen.held.queue, replaced)
    if not seen.has_pods:
        facts = without_pods(facts, found)
    phase = decide(facts)
    evidence = Evidence(found, job, seen.held.words, seen.claims)
    reason = reason_of(phase, evidence, place) if seen.has_pods or facts.end else Reason(NO_PODS)
    told = figures(found.logs, [log or TimedLog("", ()) for log in seen.logs], seen.pods, now)
    from_record = record is not None and told.step is None
    if record is not None and from_record:
        told = recorded.figures_of(record, now)
        if phase.word == Word.FAILED and not seen.pods and (why := recorded.why_failed(record)):
            reason = split(why)
    resource = job.resources[0]
    return Run(
        name=seen.release,
        namespace=seen.namespace,
        kind=_kind(resource),
        job=resource.name,
        api_version=resource.api_version,
        phase=phase,
        queue=seen.held.queue,
        why=reason.why,
        next=reason.next,
        age_seconds=_age(found.states, now),
        workers=Group("worker", workers_ready(seen.pods) if seen.has_pods else None, facts.wanted),
        others=tuple(_others(job, seen.pods if seen.has_pods else None)),
        figures=told,
        tells_steps=facts.tells_steps,
        efficiency=recorded.efficiency(record) if record is not None else None,
        from_record=from_record,
        unread=seen.unread,
    )


def _kind(resource: Resource) -> str:
    return PLAIN.name if resource.kind == "Job" else resource.kind


def _others(job: Job, pods: Sequence[kube.Pod] | None) -> list[Group]:
    roles = [role for role in lasting(job) if role.component not in RANKS]
    return [Group(role.name, None if pods is None else running(pods, role), role.replicas) for role in roles]


def _age(states: Sequence[kube.Workload], now: float) -> int | None:
    born = min(state.metadata.creation_timestamp or "" for state in states)
    try:
        return seconds_since(born, datetime.fromtimestamp(now, timezone.utc))
    except (TypeError, ValueError):  # No time, or one without a zone.
        return None
