"""The command `install`."""

from __future__ import annotations

import argparse

from distrain import console
from distrain.check.summary import summary
from distrain.commands.candidate import Candidate, candidate
from distrain.errors import StoppedError
from distrain.release.install import follow, install, refuse_what_does_not_fit, remains
from distrain.release.start import lasting
from distrain.release.wait import Followed
from distrain.wording import listed


def run(options: argparse.Namespace) -> int:
    found = candidate(options, options.name, new=True)
    report = found.report()
    refuse_what_does_not_fit(report, allow_busy=options.allow_busy or found.is_queued)
    for line in summary(report, found.job):
        console.say(line)
    try:
        console.answer(install(found.helm, found.checked_release(), create_namespace=options.create_namespace))
        if options.wait:
            _follow(found, options.timeout)
    except KeyboardInterrupt as error:
        raise StoppedError(f"interrupted; {found.release.name} may go on starting; {remains(found.release)}") from error
    return 0


def _follow(found: Candidate, timeout: float) -> None:
    release = found.release
    followed = Followed(found.job, release.name, release.target.namespace, found.value("s3", "secretName"), timeout)
    follow(found.cluster, found.helm, release, followed, console.say)
    started = listed([role.pods(role.replicas) for role in reversed(lasting(found.job))])
    console.say(f"{release.name}: all pods run: {started}")
