"""Run the command `rescale`: change only the number of workers or GPUs of a release."""

from __future__ import annotations

import argparse

from distrain import console
from distrain.changes.change import all_values, change, current_release
from distrain.changes.owned import chart_version, source_of
from distrain.errors import ValuesError
from distrain.release.current import OwnedJob
from distrain.release.size import Values, with_gpus, with_workers
from distrain.request.request import Request, before_changes
from distrain.workload.live_job import gpus_of, live_job
from distrain.workload.manifest import WORKER


def run(options: argparse.Namespace) -> int:
    request = Request(options)
    source = request.source
    current = current_release(request, lambda owned: _size(options, owned))
    there, here = current.revision.chart_version, chart_version(source)
    if current.owner:
        # Flux appends `+` and the commit to the chart's version. Leave this out: another commit may contain the same
        # chart.
        there = there.partition("+")[0]
    if there != here:
        words = f"{options.name} uses chart {there} and will get chart {here}, with all changes between them"
        console.say(f"warning: {words}; to use another chart, add --chart")
    with before_changes():
        full = all_values(request, current)
        values = _resized(request, current.revision.values, full)
    return change(request, current, source_of(source, values))


def _resized(request: Request, own: Values, full: Values) -> Values:
    """Return the release's own values for the new size."""
    options = request.options
    if not options.gpus:
        return with_workers(own, full, options.workers)

    def derived() -> set[str]:
        # Imported here, because most changes of the size derive nothing.
        from distrain.derive.former import derived_keys

        return derived_keys(
            request.given(source_of(request.source, own)), request.cluster_nodes(running=str(request.name))
        )

    return with_gpus(own, full, options.gpus, derived)


def _size(options: argparse.Namespace, owned: OwnedJob) -> Values:
    """Return the values to write for a job whose values are in git.

    The workers keep their present GPUs, if these are known.

    Raise ValuesError if the GPUs are not a multiple of a worker's GPUs. The values in git must name a number of
    workers, because no tool divides a total in git among workers.
    """
    if not options.gpus:
        return {"workers": {"replicas": options.workers}}
    workers = live_job([(owned.resource, owned.state)]).main
    if workers.component != WORKER:
        return {"gpus": options.gpus}
    each = gpus_of(workers)
    size = with_gpus({}, {"workers": {"gpus": each}}, options.gpus)
    if "gpus" not in size:
        return size
    less = options.gpus - options.gpus % each
    choice = " or ".join(str(total) for total in (less, less + each) if total)
    words = f"{options.gpus} cannot be divided evenly into workers of {each} GPUs (workers.gpus)"
    raise ValuesError(f"--gpus: {words}; ask for {choice}, or also change workers.gpus in the values file in git")
