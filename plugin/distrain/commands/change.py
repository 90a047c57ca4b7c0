"""Change a release, for the commands `upgrade` and `rescale`: print the plan, ask the user, upgrade."""

from __future__ import annotations

import uuid

import yaml
from msgspec.structs import replace

from distrain import console
from distrain.check.report import Report
from distrain.commands.formats import dumped
from distrain.commands.request import RenderedJob, Request, before_changes, refuse_disabled
from distrain.errors import StoppedError, ValuesError
from distrain.helm.program import Source
from distrain.helm.releases import Operation
from distrain.progress import hostfile
from distrain.release.current import Current, read, training
from distrain.release.plan import Before, Next, Plan, freed, lines, plan, refuse_ended, refuse_traps
from distrain.release.size import Values
from distrain.release.upgrade import upgrade
from distrain.yaml import yaml_writer


@before_changes()
def current_release(request: Request) -> Current:
    """Read the release to change, from Helm and the cluster."""
    request.reach()
    return read(request.helm.releases, request.cluster, request.options.name, request.cluster.target)


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
    found = request.job(values, running=options.name)
    job = found.job.of_release(options.name, current.revision.number + 1, options.history_max)
    found, before = found._replace(job=job), _before(request, current)
    planned = plan(options.name, before, Next(found.manifest, found.job, found.values))
    refuse_ended(planned, before)
    if planned.is_suspended:
        found.refuse_waiting()
    report = found.report(options.name) if planned.needs_room else None
    planned = _priced(planned, before, report, found, current)
    text = _told(planned, before, report, found)
    if options.yes and not options.dry_run:
        console.tell(text, f"{options.name}: the plan cannot be printed; --yes agrees to it all the same")
    else:
        console.answer(text)
    refuse_traps(planned, before)
    if report:
        found.accept(report)
    if options.dry_run == "server":
        release = found.release
        request.helm.releases.validate("upgrade", release.name, release.source, release.target)
    if options.dry_run or planned.is_empty:
        return None
    if not options.yes:
        _ask(options.name)
    return found, planned


def source_of(chart: Source, values: Values) -> Source:
    """Return the chart with these values alone."""
    return chart.with_text(yaml_writer.dump(values))


def chart_version(source: Source) -> str:
    return str(yaml.safe_load((source.chart / "Chart.yaml").read_text())["version"])


def _ask(release: str) -> None:
    """Ask whether to carry out the plan; raise StoppedError if the user refuses, ValuesError without a terminal."""
    if not console.can_ask():
        raise ValuesError("--yes: is missing, and without a terminal nobody can be asked; add it, or --dry-run")
    if not console.agrees(f"upgrade {release} so?"):
        raise StoppedError(f"{release}: not upgraded, as you wish")


def _carry_out(found: RenderedJob, planned: Plan, current: Current) -> int:
    request, release = found.request, found.release
    # The chart's hooks would repeat the plugin's check, and would delete the old job, which the plugin does itself.
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
        if is_resized:
            hostfile.refresh(request.cluster, found.job, release.name, release.target.namespace, planned.revision + 1)

    upgrade(
        found.tools(),
        release,
        operation,
        planned,
        followed=found.followed(current.pods, is_resized=is_resized),
        refresh=refresh,
    )
    return 0


def _before(request: Request, current: Current) -> Before:
    return Before(
        revision=current.revision.number,
        manifest=current.revision.manifest,
        job=current.job,
        values=request.helm.releases.all_values(request.options.name, request.cluster.target),
        end=current.end,
        is_there=current.state is not None,
        helm_flags=request.cluster.target.helm_flags,
    )


def _priced(planned: Plan, before: Before, report: Report | None, found: RenderedJob, current: Current) -> Plan:
    """Return the plan; add its costs if pods end or new pods need room."""
    is_stopped = (planned.replaces or planned.suspends) and not planned.was_suspended
    if current.runs and is_stopped:
        planned = replace(planned, lost=training(found.request.cluster, current, found.release.target.namespace))
    if report is None:
        return planned
    return replace(planned, gpus=report.gpus, freed=freed(planned, before, report.gpus.resource))


def _told(planned: Plan, before: Before, report: Report | None, found: RenderedJob) -> str:
    form = found.request.options.output
    if form != "text":
        return dumped({**planned.as_dict(), "verdict": report.verdict if report else None}, form)
    return "\n".join(lines(planned, before, has_trainer=not found.values.get("command")))
