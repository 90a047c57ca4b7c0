"""Run the command `upgrade`: print the plan, ask the user, upgrade. The command `rescale` uses it, too."""

from __future__ import annotations

import argparse
import json
import uuid

import yaml
from msgspec.structs import replace

from distrain import console
from distrain.check.report import Report
from distrain.commands.install import followed_job, judge, started, tools_of
from distrain.commands.request import Place, RequestedJob, checked_values, completed, place_of
from distrain.commands.values_flags import source_of
from distrain.errors import StoppedError, ValuesError
from distrain.helm.program import Source
from distrain.helm.releases import Operation
from distrain.helm.render import find
from distrain.release import hostfile
from distrain.release.current import Current, read, training
from distrain.release.plan import Before, Next, Plan, freed, lines, plan, refuse_traps
from distrain.release.size import Values, reused
from distrain.release.upgrade import upgrade


def run(options: argparse.Namespace) -> int:
    source, helm = source_of(options), find()
    refuse_without_answer(options)
    # Waited for when the release has been read.
    helm.begin_values(source)
    place = place_of(options, helm)
    current = read(helm.releases, place.cluster, options.name, place.target)
    return change(options, place, current, _reusing(options, place, current, source))


def change(options: argparse.Namespace, place: Place, current: Current, source: Source) -> int:
    """Print the plan of an upgrade to these values, and carry it out once the user has agreed."""
    for orphan in current.orphans:
        console.say(f"warning: {orphan.words}")
    merged = checked_values(place.helm, source)
    found = completed(place, options.name, source, merged, running=options.name)
    before = _before(place, options.name, current)
    planned = plan(options.name, before, Next(found.manifest, found.job, found.values))
    report = found.report(options.name) if planned.replaces or planned.resizes else None
    planned = _priced(planned, before, report, found, current)
    text = _told(planned, before, report, found, options.output)
    if options.yes and not options.dry_run:
        console.tell(text, f"{options.name}: the plan cannot be printed; --yes agrees to it all the same")
    else:
        console.answer(text)
    refuse_traps(planned, before)
    if report:
        judge(found, report, allow_busy=options.allow_busy)
    if options.dry_run or planned.is_empty:
        return 0
    if not options.yes and not console.agrees(f"upgrade {options.name} so?"):
        raise StoppedError(f"{options.name}: not upgraded, as you wish")
    return _carry_out(options, found, planned)


def refuse_without_answer(options: argparse.Namespace) -> None:
    """Raise ValuesError if a confirmation is needed and there is no terminal to ask at."""
    if not (options.yes or options.dry_run or console.can_ask()):
        raise ValuesError("--yes: is missing, and without a terminal nobody can be asked; add it, or --dry-run")


def _carry_out(options: argparse.Namespace, found: RequestedJob, planned: Plan) -> int:
    followed = followed_job(found, options.timeout) if options.wait else None
    # The chart's hooks would repeat the check, and would end the job that the plugin itself ends.
    hooks = not (found.checks_itself or planned.ends)
    operation = Operation(uuid.uuid4().hex, hooks=hooks, history_max=options.history_max)
    tools = tools_of(found)
    # With --output json, stdout gets only the plan.
    tools = replace(tools, answer=console.say) if options.output == "json" else tools
    upgrade(tools, found.release, operation, planned, followed=followed)
    if planned.resizes and not planned.replaces:
        release = found.release
        hostfile.refresh(found.cluster, found.job, release.name, release.target.namespace, planned.revision + 1)
    if followed:
        console.say(started(found))
    return 0


def _before(place: Place, name: str, current: Current) -> Before:
    return Before(
        revision=current.revision.number,
        manifest=current.revision.manifest,
        job=current.job,
        values=place.helm.releases.all_values(name, place.target),
        end=current.end,
        is_there=current.state is not None,
    )


def _priced(planned: Plan, before: Before, report: Report | None, found: RequestedJob, current: Current) -> Plan:
    """Return the plan with its costs, if the job is replaced or resized."""
    if report is None:
        return planned
    lost = None
    if current.runs and planned.replaces:
        lost = training(found.cluster, current, found.release.target.namespace)
        if not _checkpoints(found.values) == _checkpoints(before.values) != "":
            # Without the same checkpoint.uri before and after, the new job cannot find the old checkpoints.
            lost = replace(lost, saved=None)
    return replace(planned, gpus=report.gpus, freed=freed(planned, before, report.gpus.resource), lost=lost)


def _checkpoints(values: Values) -> str:
    return str((values.get("checkpoint") or {}).get("uri") or "")


def _told(planned: Plan, before: Before, report: Report | None, found: RequestedJob, form: str) -> str:
    if form == "json":
        return json.dumps({**planned.as_dict(), "verdict": report.verdict if report else None}, indent=2)
    return "\n".join(lines(planned, before, has_trainer=not found.values.get("command")))


def _reusing(options: argparse.Namespace, place: Place, current: Current, source: Source) -> Source:
    """Return the values as `helm upgrade` does: with the release's own where a flag says so, or none is given."""
    reuses = options.reuse_values or options.reset_then_reuse_values or not source.flags
    if options.reset_values or not reuses:
        return source
    old: Values = current.revision.values
    if options.reuse_values and chart_version(source) != current.revision.chart_version:
        # Then the old chart's defaults count, too.
        old = place.helm.releases.all_values(options.name, place.target)
    return source_with(source, reused(place.helm.given_values(source), old))


def source_with(source: Source, values: Values) -> Source:
    """Return a source of these values alone."""
    return Source(source.chart, ("--values", "-"), yaml.safe_dump(values, sort_keys=False).encode())


def chart_version(source: Source) -> str:
    return str(yaml.safe_load((source.chart / "Chart.yaml").read_text())["version"])
