"""What `check` answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

from msgspec import Struct

from distrain import console, kube
from distrain.check import offline
from distrain.check import report as reports
from distrain.check.assumed import assumed_nodes
from distrain.check.obstacles import Prepared
from distrain.check.report import gpus_of, report
from distrain.check.snapshot import Snapshot, over
from distrain.check.summary import summary
from distrain.check.why import why
from distrain.cluster import Cluster
from distrain.commands.candidate import candidate
from distrain.commands.derived import derived_source, given
from distrain.commands.source import source_of
from distrain.derive.measured import measured
from distrain.derive.room import Room
from distrain.helm import find
from distrain.job import Job, from_manifest
from distrain.target import Target, namespace_alone


class _Asked(Struct, frozen=True):
    """What is checked: a job in a namespace, against a cluster that is asked, or else one that a file holds.

    `gpu_resource` is None where no value names it, `in_cluster` where the cluster is the one around us.
    """

    job: Job
    namespace: str
    gpu_resource: str | None = None
    cluster: Cluster | None = None
    in_cluster: bool = False

    @property
    def gpus(self) -> str:
        return self.gpu_resource or gpus_of(self.job)


def answer(options: argparse.Namespace, manifest: str | None, place: tuple[Target, Cluster] | None) -> int:
    """Judge the job that the manifest or the values describe, print the verdict and return its exit code.

    `place` is the cluster that a manifest's job is checked against, unless a file or nobody tells of one.
    """
    asked = _asked(options, manifest, place)
    more = assumed_nodes(options.assume_nodes, asked.gpus)
    prepared, snapshot = _examined(options, asked, more)
    if options.why:
        console.answer("\n".join(why(options.why, prepared.job, snapshot)))
        return 0
    found = report(prepared, snapshot, asked.gpus, more)
    if options.output == "json":
        console.answer(json.dumps(found.as_dict(), indent=2))
    else:
        # The end of a pod's log becomes its termination message.
        console.answer("\n".join(summary(found, prepared.job, answer_last=asked.in_cluster)))
    return found.exit_code


def _asked(options: argparse.Namespace, manifest: str | None, place: tuple[Target, Cluster] | None) -> _Asked:
    if manifest is not None:
        job = from_manifest(manifest, "--manifest")
        if place is None:
            return _Asked(job, namespace_alone(options.namespace))
        target, cluster = place
        return _Asked(job, target.namespace, None, cluster, target.in_cluster)
    if options.snapshot or options.offline:
        return _rendered(options, namespace_alone(options.namespace))
    found = candidate(options, _running(options) or "check")
    target, gpu_resource = found.release.target, found.value("workers", "gpuResource")
    return _Asked(found.job, target.namespace, gpu_resource, found.cluster, target.in_cluster)


def _rendered(options: argparse.Namespace, namespace: str) -> _Asked:
    """Render the job for no cluster, with the newest version of its kind."""
    source, helm = source_of(options), find()
    merged = helm.merged_values(source)

    def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
        """Without a file, which would state the nodes, there are those that are assumed."""
        return measured(assumed_nodes(options.assume_nodes, gpu_resource), over(()), namespace, render(), gpu_resource)

    complete = derived_source(given(options, helm, source), merged, ask, is_final=False)
    rendering = helm.render(
        _running(options) or "check", complete, namespace, None, has_valid_values=True, has_test=False
    )
    job = from_manifest(rendering.manifest(), "--chart")
    return _Asked(job, namespace, (merged.get("workers") or {}).get("gpuResource"))


def _examined(options: argparse.Namespace, asked: _Asked, more: Sequence[kube.Node]) -> tuple[Prepared, Snapshot]:
    running = _running(options)
    if asked.cluster:
        return reports.examined(asked.cluster, asked.job, asked.namespace, asked.gpu_resource, running, more)
    found = offline.read_file(options.snapshot) if options.snapshot else offline.Contents()
    return offline.examined(found, asked.job, asked.namespace, asked.gpu_resource, running, more)


def _running(options: argparse.Namespace) -> str | None:
    """Return the release's name, whether or not it runs already: its pods tell."""
    name: str | None = options.release or options.name
    return name
