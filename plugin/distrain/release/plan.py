"""Plan an upgrade: show its effect on the running job.

Refuse an upgrade that would leave a job with other settings than the new values.

These are pure functions of two revisions and the state of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from distrain.check.gpus import Gpus
from distrain.errors import RefusedError
from distrain.kube.resource import Resource
from distrain.progress.steps import Training, duration
from distrain.release import changes, resume
from distrain.release.changes import CONTENT, IGNORED, REPLACED, Change, Object
from distrain.workload.kinds import QUEUE_LABEL
from distrain.workload.manifest import Job
from distrain.workload.suspension import is_suspended
from distrain.workload.wording import counted, listed

WIDTH = 9
# A change of only these values changes the size of the run, and not what it trains.
SIZES = {"gpus", "workers.replicas", "workers.gpus", "workers.shm"}
RESUMES = "it goes on from its last checkpoint"


class Next(Struct, frozen=True):
    """The release after the upgrade: its manifest, its job, and the values that the user gives."""

    manifest: str
    job: Job
    values: dict[str, Any]


class Before(Struct, frozen=True):
    """The installed release: the number, the manifest, the job and the values of its last revision.

    `end` is the job's result, `Succeeded` or `Failed`, or None if the job has not finished. `is_there` tells whether
    the main resource of the job exists. The flags in `helm_flags` make Helm use the cluster and namespace of the
    release. `owner` is set if Argo CD or Flux manages the release. If there is no Helm release, `revision` is 0.
    `is_read` means that the job was read from a cluster.
    """

    revision: int
    manifest: str
    job: Job
    values: dict[str, Any]
    end: str | None
    is_there: bool
    helm_flags: str
    owner: str = ""
    is_read: bool = True


class Plan(Struct, frozen=True):
    """The changes of an upgrade, and their costs.

    `lost` says how far the training of a running job is, if the job would lose steps, otherwise it is None.
    `starts_over` is the reason why the training cannot resume from the checkpoints. It is empty if the training can
    resume, or if the pods stay. `conflicts` are the changed values that make the new job refuse the old checkpoints.
    `ends` are the resources that must be deleted before Helm creates resources of the same names. The user must delete
    the resources in `by_hand`, which is a part of `ends`, because no hook of the chart deletes them. `queue` is the
    Kueue queue in which the new job waits. `was_suspended` and `is_suspended` tell whether the job is suspended before
    and after the upgrade.
    """

    release: str
    revision: int
    values: dict[str, str]
    changes: list[Change]
    gpus: Gpus | None = None
    freed: int = 0
    lost: Training | None = None
    starts_over: str = ""
    conflicts: Sequence[str] = ()
    ends: Sequence[Resource] = ()
    by_hand: Sequence[str] = ()
    queue: str = ""
    was_suspended: bool = False
    is_suspended: bool = False

    @property
    def replaces(self) -> bool:
        """Tell whether a new job replaces the running job."""
        return any(change.effect == REPLACED for change in self.changes)

    @property
    def resizes(self) -> bool:
        """Tell whether the number of pods changes."""
        return any(map(changes.is_resize, self.changes))

    @property
    def changes_only_size(self) -> bool:
        """Tell whether only the size of the run changes, whether the job is replaced for that or not."""
        return bool(self.values) and self.values.keys() <= SIZES

    @property
    def suspends(self) -> bool:
        """Tell whether the upgrade suspends a job that was not suspended, so that its pods end."""
        return self.is_suspended and not self.was_suspended

    @property
    def resumes(self) -> bool:
        """Tell whether a suspended job gets its pods again."""
        return self.was_suspended and not self.is_suspended

    @property
    def ends_pods(self) -> bool:
        """Tell whether the upgrade ends all pods of a running job."""
        return self.suspends or (self.replaces and not self.was_suspended)

    @property
    def needs_room(self) -> bool:
        """Tell whether the upgrade creates pods that need free capacity."""
        return not self.is_suspended and (self.replaces or self.resizes or self.resumes)

    @property
    def keeps_pods(self) -> bool:
        """Tell whether the running pods stay; more pods may be added."""
        return not (self.replaces or self.was_suspended or self.is_suspended)

    @property
    def is_empty(self) -> bool:
        return not self.values and not self.changes

    def as_dict(self) -> dict[str, Any]:
        return {**to_builtins(self), "replaces": self.replaces, "suspends": self.suspends, "resumes": self.resumes}


def plan(release: str, before: Before, after: Next) -> Plan:
    """Compare two revisions."""
    old, new = changes.objects(before.manifest), changes.objects(after.manifest)
    found = changes.of_objects(old, new, before.job.resources, after.job.resources)
    ends = [resource for resource in before.job.resources if _is_made_anew(old.get(resource), new.get(resource))]
    # The plugin itself ends the job, unless Argo CD or Flux deploys the chart: then the chart's hook ends the job.
    by_hand = [changes.named(each) for each in ends] if before.owner and not _has_replace_hook(after.values) else []
    planned = Plan(
        release=release,
        revision=before.revision,
        values=changes.of_values(before.values, after.values),
        changes=[_without_hook(change) if change.what in by_hand else change for change in found],
        ends=ends,
        by_hand=by_hand,
        queue=_queue(new.get(after.job.resources[0], {})),
        was_suspended=is_suspended(before.job),
        is_suspended=is_suspended(after.job),
    )
    if planned.replaces:
        return _with_resume(planned, before, after.values)
    # When a job is suspended, its pods end. A resumed job finds only what was stored outside of the pods, such as
    # checkpoints.
    is_stopped = planned.suspends or planned.resumes
    return replace(planned, starts_over=resume.obstacle(before.values, after.values)) if is_stopped else planned


def _has_replace_hook(values: dict[str, Any]) -> bool:
    """Tell whether the chart renders the hook that ends the running job.

    The same rule is in templates/context/_context.tpl.
    """
    hook, rbac = values.get("replace") or {}, values.get("rbac") or {}
    return bool(hook.get("enabled", True) and (rbac.get("create", True) or hook.get("serviceAccountName")))


def _without_hook(change: Change) -> Change:
    return replace(change, how="created anew, once someone has deleted it")


def _with_resume(planned: Plan, before: Before, new: dict[str, Any]) -> Plan:
    starts_over = resume.obstacle(before.values, new)
    # A failed job may have saved no checkpoint.
    is_judged = not starts_over and not new.get("command") and before.end != "Failed"
    conflicts = list(resume.differences(before.values, new)) if is_judged else []
    return replace(planned, starts_over=starts_over, conflicts=conflicts)


def refuse_traps(planned: Plan, before: Before) -> None:
    """Raise RefusedError if Helm would report success although the job would not match the new values."""
    if ignored := [change for change in planned.changes if change.effect == IGNORED]:
        raise RefusedError(*_ignored(ignored, planned.values, _made_anew(planned, before)))
    if planned.conflicts:
        raise RefusedError(*_refused_checkpoints(planned))


def refuse_ended(planned: Plan, before: Before) -> None:
    """Raise RefusedError if the job has ended and the upgrade would not run it again, or only at another size."""
    is_done = before.end == "Succeeded" and planned.changes_only_size
    if (is_done or not planned.replaces) and not planned.is_empty and (ended := _ended(planned, before)):
        raise RefusedError(f"{planned.release}: {ended}")


def _ended(planned: Plan, before: Before) -> str:
    """Say that the job has ended, and how to run it again.

    Return an empty string if the job does not need to run again.
    """
    if not before.is_there:
        job = changes.named(before.job.resources[0])
        state = f"{job} is gone: its ttlSecondsAfterFinished or a user has deleted it"
    elif before.end == "Failed" or (before.end and planned.changes):
        state = f"its job has {before.end.lower()} already, and this upgrade does not run it again"
    else:
        return ""
    if before.end == "Succeeded" and _again(before) == RESUMES:
        return f"{state}. To train on, upgrade it with more trainer.steps or trainer.epochs: {RESUMES}"
    return f"{state}. {_made_anew(planned, before)} under the same name: {_again(before)}"


def _made_anew(planned: Plan, before: Before) -> str:
    """Return how to run the job once more."""
    if before.owner:
        return f"Remove the release from git, wait until {before.owner} has deleted it, and add it again"
    return f"`helm uninstall {planned.release} {before.helm_flags}` and install the release again"


def _again(before: Before) -> str:
    if before.values.get("command"):
        return "the new job runs your command again"
    obstacle = resume.obstacle(before.values, before.values)
    if obstacle:
        return f"the new job trains from the start, because {obstacle}"
    return RESUMES


def lines(planned: Plan, before: Before, *, has_trainer: bool) -> Iterator[str]:
    """Yield the plan as text, line by line."""
    if planned.is_empty:
        yield f"{planned.release}: nothing changes"
        if ended := _ended(planned, before):
            yield f"{planned.release}: {ended}"
        return
    if planned.revision:
        yield f"{planned.release}: revision {planned.revision} -> {planned.revision + 1}"
    else:
        yield f"{planned.release}: values before -> values after"
    yield from (f"  value     {path}: {how}" for path, how in planned.values.items())
    yield from (f"  {change.effect:<{WIDTH}} {change.what}: {change.how}" for change in planned.changes)
    if planned.gpus and (planned.gpus.needed or planned.freed):
        gpus = planned.gpus
        freed = f"{planned.freed} freed, " if planned.replaces else ""
        yield f"  gpus      {freed}{gpus.needed} needed, {gpus.free} of {gpus.total} free for it ({gpus.resource})"
    if planned.replaces and planned.queue:
        yield f"  queue     {planned.queue}: Kueue queues the new job anew; nothing trains until it is admitted"
    yield from (f"  {word:<{WIDTH}} {words}" for word, words in deletion(planned))
    yield from (f"  {word:<{WIDTH}} {words}" for word, words in suspension(planned, has_trainer=has_trainer))
    yield f"  lost      {loss(planned, before, has_trainer=has_trainer)}"


def freed(planned: Plan, before: Before, resource: str) -> int:
    """Return how many GPUs the running job frees when it is replaced."""
    if not planned.replaces or planned.was_suspended or before.end or not before.is_there:
        return 0
    return sum(role.replicas * role.request.get(resource, 0) for role in before.job.roles)


def _is_made_anew(old: Object | None, new: Object | None) -> bool:
    """Tell whether an object must be deleted and created again, because its hash distrain/content changes."""
    before, after = (_annotations(item).get(CONTENT) for item in (old or {}, new or {}))
    return bool(before and after and before != after)


def _annotations(item: Object) -> dict[str, str]:
    return (item.get("metadata") or {}).get("annotations") or {}


def _queue(job: Object) -> str:
    return str(((job.get("metadata") or {}).get("labels") or {}).get(QUEUE_LABEL, ""))


def _ignored(found: Sequence[Change], values: Iterable[str], made_anew: str) -> Iterator[str]:
    """Yield a message for each value that would change without an effect on the job.

    `values` are the paths of all changed values. If none of them is known to set a field of the job, the message is
    about the field. `made_anew` says how the user can create the job anew.
    """
    fields = [change.what.partition(": ")[2] for change in found]
    both = reversed(list(zip(fields, found, strict=True)))
    named = {changes.value_of(path, values): change for path, change in both}
    for value, change in reversed(named.items()):
        yield (
            f"{value}: {change.what} would change ({change.how}), but nothing applies the change to "
            f"running pods; leave the value as it is, or {made_anew[0].lower()}{made_anew[1:]}"
        )


def _refused_checkpoints(planned: Plan) -> Iterator[str]:
    for conflict in planned.conflicts:
        yield (
            f"{conflict}: {planned.release}'s checkpoints do not fit the run after this change, so "
            "the new job would refuse them; leave the value as it is, or set checkpoint.uri to another "
            "URI, or checkpoint.resume to never"
        )


def deletion(planned: Plan) -> Iterator[tuple[str, str]]:
    """Yield label and text of the plan's line about resources that the user must delete, because no hook does so."""
    if planned.by_hand:
        yield (
            "by hand",
            (
                f"delete {listed(planned.by_hand)} before the change is applied: no hook ends a running job, as "
                "replace.enabled is false, or rbac.create is false and replace.serviceAccountName is empty"
            ),
        )


def suspension(planned: Plan, *, has_trainer: bool) -> Iterator[tuple[str, str]]:
    """Yield label and text of the plan's line about a job that is suspended before or after the upgrade."""
    if planned.suspends:
        yield "suspended", "the job's pods end, and it waits until job.suspend is false"
    elif planned.is_suspended:
        yield "suspended", "the job still waits until job.suspend is false"
    elif planned.resumes:
        yield "resumed", f"the job's pods are created; {_next(planned, has_trainer=has_trainer)}"


def loss(planned: Plan, before: Before, *, has_trainer: bool) -> str:
    """Say which steps of the training would be lost."""
    if planned.was_suspended and not before.end:
        return "nothing: a suspended job has no pods"
    if not (planned.replaces or planned.suspends):
        return "nothing: the job goes on" if before.is_there and not before.end else "nothing"
    if before.end or planned.lost is None:
        ended = f": the job has {before.end.lower()}" if before.end else ""
        return f"nothing that still runs{ended}; {_next(planned, has_trainer=has_trainer)}"
    ran = f" {duration(planned.lost.seconds)} of training" if planned.lost.seconds is not None else ""
    if before.values.get("command"):
        return f"what your command has not saved itself:{ran or ' all'} since its pods' start"
    if not planned.starts_over and has_trainer:
        steps = counted(planned.lost.unsaved, "step") if planned.lost.steps else "the steps since the last checkpoint"
        goes_on = "the new one goes on" if planned.replaces else "it goes on"
        most = f"at most {steps}" if planned.lost.unsaved or not planned.lost.steps else "no step"
        return f"{most}: the job saves when it is stopped, and {goes_on} from there"
    unknown = "steps, of which the log tells none yet" if before.is_read else "steps made so far"
    made = counted(planned.lost.steps, "step") if planned.lost.steps else unknown
    return f"all {made}{ran and ','}{ran}: {_next(planned, has_trainer=has_trainer)}"


def _next(planned: Plan, *, has_trainer: bool) -> str:
    job = "the new job" if planned.replaces else "it"
    if not has_trainer:
        return f"{job} runs your command anew"
    if planned.starts_over:
        return f"{job} trains from the start, because {planned.starts_over}"
    return f"{job} goes on from the last checkpoint"
