"""The command `install`."""

from __future__ import annotations

import argparse
import uuid
from functools import partial

from distrain import console
from distrain.check.report import Report
from distrain.check.text import summary
from distrain.commands.request import RequestedJob, requested_job
from distrain.helm.releases import Operation
from distrain.release import orphans
from distrain.release.install import Tools, install, refuse_what_does_not_fit
from distrain.release.interrupts import Interrupts
from distrain.release.start import lasting
from distrain.release.wait import Followed
from distrain.workload.wording import listed


def run(options: argparse.Namespace) -> int:
    found = requested_job(options, options.name, new=True)
    for orphan in orphans.of_release(found.cluster, options.name, found.release.target.namespace, ()):
        console.say(f"warning: {orphan.words}")
    judge(found, found.report(), allow_busy=options.allow_busy)
    if options.dry_run:
        console.answer(found.manifest.rstrip("\n"))
        return 0
    followed = followed_job(found, options.timeout) if options.wait else None
    operation = Operation(uuid.uuid4().hex, hooks=not found.checks_itself)
    install(tools_of(found), found.release, operation, create_namespace=options.create_namespace, followed=followed)
    if followed:
        console.say(started(found))
    return 0


def judge(found: RequestedJob, report: Report, *, allow_busy: bool) -> None:
    """Raise DoesNotFitError unless the job fits or may wait; otherwise print the report."""
    refuse_what_does_not_fit(report, allow_busy=allow_busy or found.is_queued)
    for line in summary(report, found.job):
        console.say(line)


def tools_of(found: RequestedJob) -> Tools:
    """Return the tools for a change; from here on, SIGINT and SIGTERM are held back."""
    stays = f"{found.release.name}: Helm has made the release; only its notes cannot be printed"
    tell = partial(console.tell, otherwise=stays)
    return Tools(found.helm.releases, found.cluster, Interrupts(), console.say, tell)


def followed_job(found: RequestedJob, timeout: float) -> Followed:
    release = found.release
    return Followed(found.job, release.name, release.target.namespace, found.value("s3", "secretName"), timeout)


def started(found: RequestedJob) -> str:
    pods = listed([role.pods(role.replicas) for role in reversed(lasting(found.job))])
    return f"{found.release.name}: all pods run: {pods}"
