"""The command `check`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from distrain import console
from distrain.check.report import Report, check, summary
from distrain.cluster import connect
from distrain.errors import ValuesError
from distrain.job import Job, from_manifest
from distrain.target import Target, choose


def run(options: argparse.Namespace) -> int:
    # Whether or not the release runs already: its pods tell.
    running = options.release or options.name
    if options.manifest:
        return _check_manifest(options, running)
    # Imported late: Helm's library takes longer than the first questions to a cluster, which --manifest asks at once.
    from distrain.commands.candidate import candidate

    found = candidate(options, running or "check")
    return _answer(found.report(running), found.job, found.release.target, options.output)


def _check_manifest(options: argparse.Namespace, running: str | None) -> int:
    """Check what any tool rendered; Helm is not needed, and the cluster may be the one around us."""
    job = from_manifest(_manifest(options), "--manifest")
    target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
    report = check(connect(target), job, target.namespace, release=running)
    return _answer(report, job, target, options.output)


def _answer(report: Report, job: Job, target: Target, form: str) -> int:
    if form == "json":
        console.answer(json.dumps(report.as_dict(), indent=2))
    else:
        # The end of a pod's log becomes its termination message.
        console.answer("\n".join(summary(report, job, answer_last=target.in_cluster)))
    return report.exit_code


def _manifest(options: argparse.Namespace) -> str:
    if options.value_flags:
        raise ValuesError("--manifest: it goes without values; leave out -f and --set, or --manifest")
    if options.manifest == "-":
        return sys.stdin.read()
    try:
        return Path(options.manifest).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValuesError(f"--manifest: {options.manifest} cannot be read: {reason}; name another file") from error
