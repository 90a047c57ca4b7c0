"""Run the command `status`: print the state of one run, or of every run."""

from __future__ import annotations

import argparse
import math
from functools import partial

from distrain.answers.runs_view import Asked, show
from distrain.errors import ValuesError
from distrain.request import run_record
from distrain.request.request import Request, import_msgspec

DEFAULT_GOAL = "Succeeded"


def run(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    import_msgspec()
    request = Request(options)
    cluster, endpoint = request.cluster, options.endpoint or ""
    asked = Asked(
        name=options.name,
        namespace="" if options.all_namespaces else cluster.target.namespace,
        selector=options.selector,
        watches=options.watch,
        goal=options.wait_for or (DEFAULT_GOAL if options.wait else ""),
        timeout=math.inf if options.timeout is None else options.timeout,
        form=options.output,
        record=run_record.named(request, options.name, options.record, endpoint)
        if options.record
        else run_record.Found(),
        find_record=None if options.record else partial(run_record.of_release, request, options.name, endpoint),
    )
    return show(cluster, asked)


def _refuse_contradictions(options: argparse.Namespace) -> None:
    for flag, value in (("--all-namespaces", options.all_namespaces), ("--selector", options.selector)):
        if options.name and value:
            raise ValuesError(f'{flag}: lists all runs, but "{options.name}" names one run; leave out one of the two')
    for flag, value in (("--record", options.record), ("--endpoint", options.endpoint)):
        if value and not options.name:
            raise ValuesError(
                f"{flag}: is for a single run; write `helm distrain status run1`, with your run's name, and then {flag}"
            )
    if not options.name and (options.wait or options.wait_for):
        raise ValuesError("--wait: waits for one run; name it, as in `helm distrain status run1 --wait`")
    if options.timeout is not None and not (options.wait or options.wait_for):
        raise ValuesError("--timeout: limits only --wait, which was not given; add --wait, or leave out --timeout")
    if options.watch and (options.wait or options.wait_for):
        raise ValuesError(
            "--watch: never ends by itself, but --wait ends when the run reaches a goal; leave out one of the two flags"
        )
