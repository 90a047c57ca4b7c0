"""What `check` answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from distrain import console, kube
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import Target, namespace_alone
from distrain.check import live_cluster, snapshot_file
from distrain.check.assumed_nodes import assumed_nodes
from distrain.check.cluster_state import ClusterState
from distrain.check.explain import why
from distrain.check.refusals import PreparedJob
from distrain.check.report import report
from distrain.check.text import summary
from distrain.commands.subject import Subject
from distrain.workload.manifest import from_manifest


def answer(options: argparse.Namespace, manifest: str | None, place: tuple[Target, Cluster] | None) -> int:
    """Judge the job that the manifest or the values describe, print the verdict and return its exit code.

    `place` is the cluster that a manifest's job is checked against, unless a file or nobody tells of one.
    """
    subject = _subject(options, manifest, place)
    more = assumed_nodes(options.assume_nodes, subject.gpus)
    prepared, state = _examined(options, subject, more)
    if options.why:
        console.answer("\n".join(why(options.why, prepared.job, state)))
        return 0
    found = report(prepared, state, subject.gpus, more)
    if options.output == "json":
        console.answer(json.dumps(found.as_dict(), indent=2))
    else:
        lines = summary(found, prepared.job, answer_last=subject.in_cluster)
        console.answer("\n".join(lines))
        if subject.in_cluster:
            console.leave(lines[-1])
    return found.exit_code


def _subject(options: argparse.Namespace, manifest: str | None, place: tuple[Target, Cluster] | None) -> Subject:
    if manifest is not None:
        job = from_manifest(manifest, "--manifest")
        if place is None:
            return Subject(job, namespace_alone(options.namespace))
        target, cluster = place
        return Subject(job, target.namespace, None, cluster, target.in_cluster)
    # What runs Helm and derives is loaded for values alone: a manifest's job waits for the cluster already.
    from distrain.commands.described import described

    return described(options, _running(options) or "check")


def _examined(
    options: argparse.Namespace, subject: Subject, more: Sequence[kube.Node]
) -> tuple[PreparedJob, ClusterState]:
    running = _running(options)
    if subject.cluster:
        return live_cluster.examined(
            subject.cluster, subject.job, subject.namespace, subject.gpu_resource, running, more
        )
    found = snapshot_file.read_file(options.snapshot) if options.snapshot else snapshot_file.Contents()
    return snapshot_file.examined(found, subject.job, subject.namespace, subject.gpu_resource, running, more)


def _running(options: argparse.Namespace) -> str | None:
    """Return the release's name, whether or not it runs already: its pods tell."""
    name: str | None = options.release or options.name
    return name
