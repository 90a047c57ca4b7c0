"""Refuse pods whose gang scheduler is not in the cluster. Name the schedulers and queues that cannot be checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distrain.admission.refusal import Refusal
from distrain.verdict import Verdict
from distrain.workload.controllers import GANG_SCHEDULER
from distrain.workload.gang_schedulers import KUEUE, GangScheduler, is_in_gang, needed, queues, scheduler_names
from distrain.workload.manifest import Job
from distrain.workload.wording import Wording

# Maps the API group of a gang scheduler to True if the cluster serves this group. A group that was not read has no
# entry in this mapping.
Served = Mapping[str, bool]


def refusals(job: Job, served: Served, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each gang scheduler that the pods need and that the cluster does not have."""
    for choice in needed(job):
        if all(served.get(each.group) is False for each in choice):
            first, names = choice[0], " nor ".join(each.name for each in choice)
            lacks = f"neither {names}" if len(choice) > 1 else f"no {names}"
            apis = " or ".join(each.group for each in choice)
            place, other = _place(first, say)
            step = f"{place}: the cluster has {lacks}, as it serves no {first.kind} of {apis}. The pods would wait"
            words = f'no matches for kind "{first.kind}" in group "{first.group}"'
            yield Refusal(Verdict.IMPOSSIBLE, words, f"{step} for ever. Install it, or {other}.")


def _place(scheduler: GangScheduler, say: Wording) -> tuple[str, str]:
    """Return the path of the value that names the gang scheduler, and how the user can do without this scheduler."""
    if say.job.from_chart and is_in_gang(say.job):
        return "gang.scheduler", "set gang.scheduler to none"
    role = next((role for role in say.job.roles if role.spec.scheduler_name == scheduler.scheduler), say.job.main)
    return say.shared_place(role, "schedulerName", lambda spec: spec.scheduler_name), "name another scheduler"


def not_judged(job: Job, served: Served) -> Iterator[str]:
    """Yield a line for each scheduler and each Kueue queue whose presence in the cluster cannot be checked."""
    missing = {each.scheduler for choice in needed(job) for each in choice if served.get(each.group) is False}
    for choice in needed(job):
        if not any(each.group in served for each in choice):
            yield f"whether the cluster has {' or '.join(each.name for each in choice)}, for which the pods wait"
    for name in sorted(scheduler_names(job) - missing - {GANG_SCHEDULER}):
        yield f"whether scheduler {name} runs, for which its pods wait"
    for kind, queue in queues(job):
        yield _of_queue(kind, queue, served)


def _of_queue(kind: str, queue: str, served: Served) -> str:
    if served.get(KUEUE.group) is False:
        return f"the queue {queue}: the cluster has no Kueue, so the {kind} starts at once and waits in no queue"
    if KUEUE.group in served:
        return f"whether Kueue has the queue {queue}"
    return f"whether Kueue is here and has the queue {queue}; without Kueue, the {kind} starts at once"
