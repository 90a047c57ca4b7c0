"""Run the command `status`: say how a run, or each run, is doing."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from distrain.answers.runs_view import Asked, show
from distrain.errors import ValuesError
from distrain.request.request import Request, import_msgspec

if TYPE_CHECKING:
    from distrain.record.read import Record

DEFAULT_GOAL = "Succeeded"


def run(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    import_msgspec()
    cluster = Request(options).cluster
    asked = Asked(
        name=options.name,
        namespace="" if options.all_namespaces else cluster.target.namespace,
        selector=options.selector,
        watches=options.watch,
        goal=options.wait_for or (DEFAULT_GOAL if options.wait else ""),
        timeout=math.inf if options.timeout is None else options.timeout,
        form=options.output,
        record=_record(options.record),
    )
    return show(cluster, asked)


def _record(folder: str | None) -> Record | None:
    """Read the run's record from its folder, None without one."""
    from pathlib import Path

    from distrain.record.read import RecordError, in_folder

    try:
        return in_folder(Path(folder)) if folder else None
    except RecordError as error:
        raise ValuesError(f"--record: {error}") from None


def _refuse_contradictions(options: argparse.Namespace) -> None:
    for flag, value in (("--all-namespaces", options.all_namespaces), ("--selector", options.selector)):
        if options.name and value:
            raise ValuesError(f'{flag}: is for all runs, and "{options.name}" names one; leave out one of them')
    if options.record and not options.name:
        raise ValuesError("--record: belongs to one run; name it, as in `helm distrain status run1 --record FOLDER`")
    if not options.name and (options.wait or options.wait_for):
        raise ValuesError("--wait: waits for one run; name it, as in `helm distrain status run1 --wait`")
    if options.timeout is not None and not (options.wait or options.wait_for):
        raise ValuesError("--timeout: limits --wait, which is missing; add --wait, or leave it out")
    if options.watch and (options.wait or options.wait_for):
        raise ValuesError("--watch: goes on without a goal, and --wait ends at one; leave out one of them")
