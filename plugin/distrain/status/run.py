"""Combine what is known about one run at one moment into its status."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.kube.resource import Resource
from distrain.progress.causes import Cause
from distrain.progress.healed import events_since, healed_ends
from distrain.progress.logs import has_main_log, may_lack_main_log
from distrain.progress.start import LAUNCHER, JobState, lacks_pods, lasting, role_of
from distrain.progress.steps import seconds_since
from distrain.record.read import Record
from distrain.redact import redact
from distrain.status import recorded
from distrain.status.causes.failing import last_failure
from distrain.status.causes.reasons import Evidence, Place, Reason, reason_of, split
from distrain.status.causes.stalled import Ranks, cause_of
from distrain.status.causes.unscheduled import Claim
from distrain.status.facts import RANKS, facts_of, is_ready, tells_steps, without_pods, workers_ready
from distrain.status.figures import Figures, TimedLog, clock, figures, last_step, last_time
from distrain.status.phase import Facts, Phase, Word, decide
from distrain.workload.kinds import PLAIN
from distrain.workload.live_job import LiveObject, in_order, live_job
from distrain.workload.manifest import Job

RUNS = "Running"
# Says why the phase is uncertain if the user may read the run's job, but not its pods.
NO_PODS = "its pods may not be read, so only the job's own conditions are known"
# Says why a run counts as Running although no step is known.
NO_LOG = "all its pods run; its log {was_not_read}, so nobody can tell whether it makes steps"


class Held(Struct, frozen=True):
    """What holds the pods of a run back: the queue, if the run waits in one and is not admitted, and a message."""

    queue: str = ""
    words: str = ""


class Observed(Struct, frozen=True):
    """The objects and logs of a run that were read.

    `objects` are the objects of the run's current job, and `replaced` are those of a job that is being deleted. `logs`
    are the logs of the pods in `speakers`. If any log has a step, the log with the newest step comes first. `behind`
    says by how many seconds the clock of that log's node is behind this machine's clock. `tails` are the last log lines
    of other ranks. These tails are read only if the run seems to be stalled.

    `has_pods` is False if the user has no permission to read pods. `has_logs` is False if the caller asked for no logs.
    `leaving` are pods that Kubernetes is deleting. `claims` are the unbound claims of a pod without a node.
    """

    release: str
    namespace: str
    objects: Sequence[LiveObject]
    pods: Sequence[kube.Pod] = ()
    leaving: Sequence[kube.Pod] = ()
    tails: Sequence[tuple[kube.Pod, TimedLog]] = ()
    behind: float = 0
    claims: Sequence[Claim] = ()
    events: Sequence[kube.Event] = ()
    logs: Sequence[TimedLog | None] = ()
    speakers: Sequence[kube.Pod] = ()
    replaced: Sequence[LiveObject] = ()
    held: Held = Held()
    has_pods: bool = True
    has_logs: bool = True
    unread: tuple[str, ...] = ()


class Group(Struct, frozen=True):
    """The pods of one role: how many the job wants, and how many are ready (None if pods could not be read)."""

    role: str
    ready: int | None
    wanted: int


class Run(Struct, frozen=True):
    """The status of a run. `unread` has one line for each thing that the user has no permission to read.

    `efficiency` is the run's speed, divided by the total speed of as many ranks that each train alone. `from_record`
    means that the figures come from the run's record, because the logs contain none. `lacks_log` means that the run has
    ended or is suspended, and that the log with its last steps is gone.
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
    lacks_log: bool = False
    unread: tuple[str, ...] = ()

    @property
    def has_failed(self) -> bool:
        return self.phase.word == Word.FAILED

    @property
    def has_ended(self) -> bool:
        return self.phase.word in (Word.SUCCEEDED, Word.FAILED)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer for `-o json`. Its field names must not change."""
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


def run_of(seen: Observed, place: Place, now: float, record: Record | None = None) -> Run:
    """Return the status of a run; `now` is in seconds since 1970. `record` is the run's record, if it was read."""
    job, logs = live_job(seen.objects), [log or TimedLog() for log in seen.logs]
    step = last_step(seen.logs)
    found = _state(seen, place, step)
    facts = _facts(seen, found, job, logs)
    phase = decide(facts)
    by_logs = _by_logs(seen, facts, job, now)
    if lacks_log := _lacks_log(seen, job, by_logs, phase):
        by_logs = replace(by_logs, restarts=None, rescales=None)
    from_record = record is not None and (by_logs.step is None or lacks_log)
    stall = _stall(seen, facts, logs, job, now - seen.behind, place)
    healed = frozenset[str]() if step is None else healed_ends(seen.pods, step)
    evidence = Evidence(found, job, seen.held.words, seen.claims, stall, healed, now)
    reason = reason_of(phase, evidence, place) if seen.has_pods or facts.end else Reason(NO_PODS)
    if phase.word == Word.RUNNING and seen.has_pods and not reason.why and (why := _unknown(seen, job, step)):
        reason = Reason(why, reason.next)
    if record is not None and from_record and phase.word == Word.FAILED and not has_main_log(seen.pods, job):
        reason = split(why) if (why := recorded.why_failed(record)) else reason
    told = by_logs
    if record is not None:
        told = recorded.figures_of(record, now) if from_record else _with_counts(by_logs, record)
    resource = job.resources[0]
    return Run(
        name=seen.release,
        namespace=seen.namespace,
        kind=_kind(resource),
        job=resource.name,
        api_version=resource.api_version,
        phase=phase,
        queue=seen.held.queue,
        why=redact(reason.why),
        next=redact(reason.next),
        age_seconds=_age(found.states, now),
        workers=Group("worker", workers_ready(seen.pods) if seen.has_pods else None, facts.wanted),
        others=tuple(_others(job, seen.pods if seen.has_pods else None)),
        figures=_shown(told, phase),
        tells_steps=facts.tells_steps,
        efficiency=None if record is None else _efficiency(record, logs, by_logs),
        from_record=from_record,
        lacks_log=lacks_log,
        unread=tuple(map(redact, seen.unread)),
    )


def _facts(seen: Observed, found: JobState, job: Job, logs: Sequence[TimedLog]) -> Facts:
    """Return the facts that decide the phase, as far as the user has permission to read pods and logs."""
    replaced = live_job(seen.replaced).main.replicas if seen.replaced else None
    facts = facts_of(found, job, seen.held.queue, replaced, logs)
    facts = facts if seen.has_pods else without_pods(facts, found)
    return facts if seen.has_logs else replace(facts, tells_steps=False)


def _lacks_log(seen: Observed, job: Job, told: Figures, phase: Phase) -> bool:
    """Tell whether a run that has ended or is suspended has lost the log with its last steps.

    Under torchrun another worker may have been rank 0 before, so the logs that are left may end at an earlier step.
    """
    is_over = phase.word in (Word.SUCCEEDED, Word.FAILED, Word.SUSPENDED)
    is_part = phase.word == Word.SUCCEEDED and (told.step or 0) < (told.steps or 0)
    is_unknown = told.step is None or is_part
    return is_over and is_unknown and seen.has_pods and may_lack_main_log(seen.pods, job)


def _by_logs(seen: Observed, facts: Facts, job: Job, now: float) -> Figures:
    told = figures(seen.logs, seen.pods, now - seen.behind)
    if facts.is_suspended and lacks_pods(seen.pods, job):
        # The logs of pods that had already ended were not read.
        return replace(told, restarts=None, rescales=None)
    has_launcher = any(role.component == LAUNCHER for role in lasting(job))
    if told.step is None and not has_launcher and not tells_steps(job):
        # Neither the program nor a launcher says the number of ranks.
        return replace(told, rescales=None)
    return told


def _unknown(seen: Observed, job: Job, step: float | None) -> str:
    """Say why the steps of the trainer are unknown.

    Return an empty text if the steps are known, all logs could be read, or the program logs no steps.
    """
    if not tells_steps(job) or (seen.has_logs and None not in seen.logs) or step is not None:
        return ""
    return NO_LOG.format(was_not_read="cannot be read" if seen.has_logs else "is not read in a list of so many runs")


def _state(seen: Observed, place: Place, step: float | None) -> JobState:
    """Return the state of the run.

    `step` is the time of the run's last step. Leave out older events. Also leave out older log lines, except those of
    the first pod in `seen.speakers`.
    """
    states = [workload for _, workload in in_order(seen.objects)]
    events = seen.events if step is None else events_since(seen.events, step)
    told = [
        place.log(pod, log.text if log else None, log.position_after(step) if log and number and step else 0)
        for number, (pod, log) in enumerate(zip(seen.speakers, seen.logs, strict=True))
    ]
    return JobState(states, seen.pods, events, told, seen.leaving)


def ranks_of(seen: Observed, logs: Sequence[TimedLog], job: Job) -> Ranks:
    has_launcher = any(role_of(pod) == LAUNCHER for pod in seen.speakers)
    return Ranks(seen.pods, seen.speakers, logs, seen.tails, (job.slots or 1) if has_launcher else None)


def _stall(seen: Observed, facts: Facts, logs: Sequence[TimedLog], job: Job, now: float, place: Place) -> Cause | None:
    """Return why a run makes no steps, or how its program has failed since the last step. Return None otherwise.

    If the program logs no steps, only its failures are known.
    """
    ranks = ranks_of(seen, logs, job)
    time, has_steps = clock(ranks.first, now), facts.trained is not None or facts.tells_steps
    all_run = all(pod.status.phase == RUNS for pod in seen.speakers)
    if has_steps and all_run and (stalled := cause_of(ranks, time, place.last_lines)):
        return stalled
    reason = split(last_failure(ranks, last_time(ranks.first), time, place.kubectl_flags))
    return Cause(reason.why, reason.next) if reason.why else None


def _shown(told: Figures, phase: Phase) -> Figures:
    """Return the figures without secrets. If a run does not train, it has no current rate and no remaining time."""
    checkpoint = None if told.checkpoint is None else redact(told.checkpoint)
    if phase.word in (Word.RUNNING, Word.RESCALING, Word.SUCCEEDED, Word.FAILED):
        return replace(told, checkpoint=checkpoint)
    return replace(told, checkpoint=checkpoint, images_per_second=None, eta_seconds=None)


def _with_counts(told: Figures, record: Record) -> Figures:
    """Take the restarts and rescales from the record, which is complete.

    If the logs show a higher number, take that number.
    """
    counts = recorded.counts_of(record)
    known = {name: (number, getattr(told, name)) for name, number in counts.items()}
    most = {name: max((each for each in both if each is not None), default=None) for name, both in known.items()}
    return replace(told, **most)


def _efficiency(record: Record, logs: Sequence[TimedLog], told: Figures) -> float | None:
    """Return the efficiency for the rate that is shown. The number of ranks comes from the same line as the rate."""
    last = logs[0].last if logs else None
    if last is None:
        return recorded.efficiency(record)
    rate = told.images_per_second if told.images_per_second_mean is None else told.images_per_second_mean
    return recorded.efficiency(record, rate, last.world_size or 1)


def _kind(resource: Resource) -> str:
    return PLAIN.name if resource.kind == "Job" else resource.kind


def _others(job: Job, pods: Sequence[kube.Pod] | None) -> list[Group]:
    roles = [role for role in lasting(job) if role.component not in RANKS]
    ready = None if pods is None else [role_of(pod) for pod in pods if is_ready(pod)]
    return [Group(role.name, None if ready is None else ready.count(role.component), role.replicas) for role in roles]


def _age(states: Sequence[kube.Workload], now: float) -> int | None:
    born = min(state.metadata.creation_timestamp or "" for state in states)
    try:
        return seconds_since(born, datetime.fromtimestamp(now, timezone.utc))
    except (TypeError, ValueError):  # The time is missing, or it has no time zone.
        return None
