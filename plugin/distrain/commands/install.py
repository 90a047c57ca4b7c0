"""Run the command `install`: check the job, then install it as a new release."""

from __future__ import annotations

import argparse
import uuid

from distrain import console
from distrain.commands.request import Request
from distrain.helm.releases import Operation
from distrain.release import orphans
from distrain.release.install import install


def run(options: argparse.Namespace) -> int:
    request = Request(options)
    found = request.new_job(is_release=True)
    for orphan in orphans.of_release(request.cluster, options.name, request.cluster.target.namespace, ()):
        console.say(f"warning: {orphan.words}")
    found.accept(found.report())
    if options.dry_run:
        console.answer(found.manifest.rstrip("\n"))
        return 0
    operation = Operation(uuid.uuid4().hex, hooks=not found.checks_itself)
    install(
        found.tools(), found.release, operation, create_namespace=options.create_namespace, followed=found.followed()
    )
    return 0
