"""Run the command `upgrade`: change a release to the given values."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from distrain import console
from distrain.changes.change import all_values, change, current_release
from distrain.changes.creation import create
from distrain.changes.owned import chart_version, source_of
from distrain.errors import RefusedError
from distrain.helm.program import Source
from distrain.release.current import Current, owned_job
from distrain.release.size import Values, reused
from distrain.request.request import Request, before_changes

if TYPE_CHECKING:  # pyhelm3 is slow to import, see release/transaction.py
    from distrain.helm.releases import Status


def run(options: argparse.Namespace) -> int:
    request = Request(options)
    if options.values_before:
        # Import only here, because other upgrades do not need this module.
        from distrain.changes.plan_offline import plan_offline

        return plan_offline(request)
    source, helm = request.source, request.helm
    # Helm computes the values while the plugin reads the release.
    helm.begin_values(source)
    if options.install:
        status = _status(request)
        if status is None and not _is_applied(request):
            return create(request)
        if status and status.word == "uninstalled":
            return create(request, uninstalled=status.revision)
    try:
        current = current_release(request, lambda _: helm.given_values(source))
    except RefusedError:
        # If Helm cannot read the values either, the error is about them: the user mends the file first.
        helm.given_values(source)
        raise
    return change(request, current, _reusing(request, current))


@before_changes()
def _status(request: Request) -> Status | None:
    request.reach()
    return request.helm.releases.status(request.options.name, request.cluster.target)


def _is_applied(request: Request) -> bool:
    """Tell whether Argo CD or Flux has applied the job without Helm."""
    return owned_job(request.cluster, request.options.name, request.cluster.target.namespace) is not None


@before_changes()
def _reusing(request: Request, current: Current) -> Source:
    """Return the chart and the values that `helm upgrade` would use with the same flags.

    The release's values are reused if a flag says so, or if no values are given.
    """
    options, source = request.options, request.source
    reuses = options.reuse_values or options.reset_then_reuse_values or not source.flags
    if options.reset_values or not reuses:
        if not (options.reset_values or source.files) and current.revision.values:
            words = f"like `helm upgrade`, this command does not reuse the values of release {options.name}"
            console.say(f"warning: {words}; give them with -f, or add --reuse-values")
        return source
    old: Values = current.revision.values
    if options.reuse_values and chart_version(source) != current.revision.chart_version:
        # If the chart's version changes, Helm's --reuse-values also keeps the defaults of the old chart.
        old = all_values(request, current)
    return source_of(source, reused(request.helm.given_values(source), old))
