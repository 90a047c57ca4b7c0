"""Create a release, for the commands `install` and `upgrade --install`."""

from __future__ import annotations

import uuid

from distrain import console
from distrain.answers.formats import MARKDOWN, dumped
from distrain.changes.owned import refuse_applied, refuse_taken
from distrain.check.markdown import check_markdown
from distrain.errors import NameInUseError
from distrain.helm.releases import Operation
from distrain.release import orphans
from distrain.release.install import install
from distrain.request.rendered_job import RenderedJob
from distrain.request.request import Request, before_changes


def create(request: Request, uninstalled: int = 0) -> int:
    """Check the job, and install it as a new release.

    If a release of this name was uninstalled with --keep-history, `uninstalled` is its last revision, and the new
    release continues its history, as with `helm upgrade --install`. Otherwise `uninstalled` is 0.
    """
    found = _accepted(request, uninstalled)
    if not request.options.dry_run:
        _carry_out(found, uninstalled)
    return 0


@before_changes()
def _accepted(request: Request, uninstalled: int) -> RenderedJob:
    """Return the job to install; raise an error if it neither fits nor may wait for free capacity.

    With --dry-run, also print it.
    """
    options = request.options
    try:
        found = request.new_job(is_release=True, uninstalled=uninstalled)
    except NameInUseError:
        refuse_taken(request, str(request.name))
        raise
    name, target = found.release.name, found.release.target
    refuse_applied(request, name)
    orphans.refuse_takeover(request.cluster, name, target.namespace, found.job.resources)
    for orphan in orphans.of_release(request.cluster, name, target.namespace, ()):
        console.say(f"warning: {orphan.words}")
    if found.is_suspended:
        found.refuse_waiting()
    report = found.report()
    found.accept(report)
    if found.is_suspended:
        console.say(f"{name}: the job is suspended: it waits until an upgrade sets job.suspend to false")
    if options.dry_run == "server":
        request.helm.releases.validate("install", name, found.release.source, target)
    # Only `upgrade --install` has the option --output, which prints the plan for a new release.
    form = getattr(options, "output", "text")
    if form == MARKDOWN:
        console.answer_people(check_markdown(name, report, found.job, title="a new release"))
    elif form != "text":
        console.answer(dumped({"release": name, "revision": uninstalled, "verdict": report.verdict}, form))
    elif options.dry_run:
        console.answer(found.manifest.rstrip("\n"))
    return found


def _carry_out(found: RenderedJob, uninstalled: int) -> None:
    options, followed, tools = found.request.options, found.followed(), found.tools()
    more = tuple(options.helm_flags)
    operation = Operation(uuid.uuid4().hex, hooks=found.runs_hooks, more=more, uninstalled=uninstalled)
    install(
        tools,
        found.release,
        operation,
        found.manifest,
        create_namespace=options.create_namespace,
        followed=followed,
    )
