"""Change a release, for the commands `upgrade` and `rescale`: print the plan, ask the user, upgrade."""

from __future__ import annotations

import uuid
from contextlib import suppress

from msgspec.structs import replace

from distrain import console
from distrain.changes.owned import Wanted, applied_from_git, in_git, is_of_helm_release, source_of, with_values_files
from distrain.changes.plan_text import told
from distrain.check.report import Report
from distrain.errors import RecreatedError, StoppedError, UnreachableError, ValuesError
from distrain.helm.program import Source
from distrain.helm.releases import Operation
from distrain.progress import hostfile
from distrain.release.current import Current, read, training
from distrain.release.orphans import refuse_takeover
from distrain.release.plan import Before, Plan, freed, plan, refuse_ended, refuse_traps
from distrain.release.size import Values
from distrain.release.upgrade import upgrade
from distrain.request.rendered_job import RenderedJob
from distrain.request.request import Request, before_changes, refuse_disabled


@before_changes()
def current_release(request: Request, wanted: Wanted) -> Current:
    """Read the release to change, from Helm and the cluster.

    `wanted` returns the values that the command asks for. If Argo CD manages the job, an error tells the user to write
    these values in git.
    """
    request.reach()
    found = read(request.helm.releases, request.cluster, request.options.name, request.cluster.target)
    if not isinstance(found, Current):
        return applied_from_git(request, found, wanted)
    return with_values_files(request, found) if is_of_helm_release(found) else found


def all_values(request: Request, current: Current) -> Values:
    """Return the release's values merged with the defaults of its chart.

    A job that Argo CD manages has no release, so use the defaults of the chart in --chart.
    """
    if current.revision.number == 0:
        return request.helm.merged_values(source_of(request.source, current.revision.values))
    found: Values = request.helm.releases.all_values(request.options.name, request.cluster.target)
    return found


def change(request: Request, current: Current, values: Source) -> int:
    """Print the plan of an upgrade to these values, ask the user, and carry out the plan if the user agrees."""
    agreed = _agreed(request, current, values)
    return _carry_out(*agreed, current) if agreed else 0


@before_changes()
def _agreed(request: Request, current: Current, values: Source) -> tuple[RenderedJob, Plan] | None:
    """Print the plan, and return it if the user agrees and something changes."""
    options = request.options
    for orphan in current.orphans:
        console.say(f"warning: {orphan.words}")
    refuse_disabled(request.helm.merged_values(values))
    # If Argo CD or Flux owns the release (`current.owner`), the values are not final: the owner renders them exactly as
    # they are in git. So the plan must not add a derived size of /dev/shm.
    found = request.job(values, is_final=current.owner is None, running=options.name)
    to_do = in_git(request, current, found) if current.owner else None
    if to_do and not options.dry_run:
        raise to_do
    # Argo CD creates no Helm release, so no release Secret counts against a quota.
    number = current.revision.number + 1 if current.revision.number else 0
    job = found.job.of_release(options.name, number, options.history_max)
    found, before = found._replace(job=job), _before(request, current)
    known = {(each.kind, each.name) for each in current.job.resources}
    new = (each for each in job.resources if (each.kind, each.name) not in known)
    refuse_takeover(request.cluster, options.name, found.release.target.namespace, new)
    planned = plan(options.name, before, found.next)
    refuse_ended(planned, before)
    if planned.is_suspended:
        found.refuse_waiting()
    report = found.report(options.name) if planned.needs_room else None
    planned = _priced(planned, before, report, found, current)
    text = told(request, planned, before, found.next, report)
    if options.yes and not options.dry_run:
        console.tell(text, f"{options.name}: the plan cannot be printed; add --yes to carry it out without seeing it")
    else:
        console.answer(text)
    for message in to_do.messages if to_do else ():
        console.say(message)
    refuse_traps(planned, before)
    if report:
        found.accept(report)
    if options.dry_run == "server" and current.revision.number:
        release = found.release
        request.helm.releases.validate("upgrade", release.name, release.source, release.target)
    if options.dry_run or planned.is_empty:
        return None
    if not options.yes:
        _ask(options.name)
    return found, planned


def _ask(release: str) -> None:
    """Ask whether to carry out the plan.

    Raise StoppedError if the user refuses, and ValuesError if there is no terminal.
    """
    if not console.can_ask():
        raise ValuesError(
            "--yes: is missing, and without a terminal the command cannot ask you; add --yes or --dry-run"
        )
    if not console.agrees(f"change {release} like this?"):
        raise StoppedError(f"{release}: not upgraded, because you did not agree")


def _carry_out(found: RenderedJob, planned: Plan, current: Current) -> int:
    request, release = found.request, found.release
    # The chart's hooks are switched off: they would repeat the plugin's check and delete the old job, and the plugin
    # does both itself.
    options, is_resized = request.options, planned.resizes and planned.keeps_pods
    more = tuple(options.helm_flags)
    hooks = found.runs_hooks and not planned.ends
    operation = Operation(
        uuid.uuid4().hex,
        hooks=hooks,
        history_max=options.history_max,
        more=more,
        forces_conflicts=current.revision.is_applied_by_server,
    )

    def refresh() -> None:
        if not planned.replaces:
            _refuse_another(found, current)
        if is_resized:
            hostfile.refresh(request.cluster, found.job, release.name, release.target.namespace, planned.revision + 1)

    upgrade(
        found.tools(),
        release,
        operation,
        planned,
        found.manifest,
        followed=found.followed(current.pods, is_resized=is_resized),
        refresh=refresh,
    )
    return 0


def _refuse_another(found: RenderedJob, current: Current) -> None:
    """Raise RecreatedError if the upgrade should have kept the job, but the job in the cluster is a new one.

    Helm does not notice that its release is uninstalled during an upgrade, and creates the missing objects again.
    """
    name, old = found.release.name, current.state
    with suppress(UnreachableError):
        new = found.request.cluster.workload(current.job.resources[0], found.release.target.namespace)
        if old and new and new.metadata.uid != old.metadata.uid:
            raise RecreatedError(f"{name}: someone uninstalled it during the upgrade, which created it again")


def _before(request: Request, current: Current) -> Before:
    return Before(
        revision=current.revision.number,
        manifest=current.revision.manifest,
        job=current.job,
        values=all_values(request, current),
        end=current.end,
        is_there=current.state is not None,
        helm_flags=request.cluster.target.helm_flags,
        owner=current.owner.words if current.owner else "",
    )


def _priced(planned: Plan, before: Before, report: Report | None, found: RenderedJob, current: Current) -> Plan:
    """Return the plan with its costs: the training that is lost if pods end, and the GPUs that the new pods need."""
    if current.runs and planned.ends_pods:
        planned = replace(planned, lost=training(found.request.cluster, current, found.release.target.namespace))
    if report is None:
        return planned
    return replace(planned, gpus=report.gpus, freed=freed(planned, before, report.gpus.resource))
