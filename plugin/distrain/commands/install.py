"""Run the command `install`: check the job, then install it as a new release."""

from __future__ import annotations

import argparse
from functools import partial

from distrain import console
from distrain.answers.runs_view import Asked, show
from distrain.changes.creation import create
from distrain.errors import StoppedError, ValuesError
from distrain.request import run_record
from distrain.request.request import Request


def run(options: argparse.Namespace) -> int:
    if options.follow and options.dry_run:
        raise ValuesError(
            "--follow: shows the run that is installed, but --dry-run installs nothing; leave out one of the two flags"
        )
    request = Request(options)
    code = create(request)
    return _follow(request) if options.follow else code


def _follow(request: Request) -> int:
    """Show the run until it has ended. If an error or Ctrl-C interrupts this, the release remains installed."""
    name, target = str(request.name), request.cluster.target
    record = partial(run_record.of_release, request, name, "")
    code = show(request.cluster, Asked(name, target.namespace, watches=True, find_record=record))
    if code == StoppedError.exit_code:
        console.say(
            f"{name}: the run goes on; `helm distrain status {name} {target.helm_flags} --watch` shows it again"
        )
    return code
