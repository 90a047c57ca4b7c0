"""The job that the values describe, for a check."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from distrain.apiserver.target import namespace_alone
from distrain.check.assumed_nodes import assumed_nodes
from distrain.check.cluster_state import over
from distrain.commands.derived import derived_source, given
from distrain.commands.request import requested_job
from distrain.commands.source import source_of
from distrain.commands.subject import Subject
from distrain.derive.measured import measured
from distrain.derive.room import Room
from distrain.helm.render import find
from distrain.workload.manifest import Job, from_manifest


def described(options: argparse.Namespace, name: str) -> Subject:
    """Return the job as a release of this name would have it, for its cluster unless a file or nobody tells of one."""
    if options.snapshot or options.offline:
        return _rendered(options, name, namespace_alone(options.namespace))
    found = requested_job(options, name)
    target, gpu_resource = found.release.target, found.value("workers", "gpuResource")
    return Subject(found.job, target.namespace, gpu_resource, found.cluster, target.in_cluster)


def _rendered(options: argparse.Namespace, name: str, namespace: str) -> Subject:
    """Render the job for no cluster, with the newest version of its kind."""
    source, helm = source_of(options), find()
    merged = helm.merged_values(source)

    def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
        """Without a file, which would state the nodes, there are those that are assumed."""
        return measured(assumed_nodes(options.assume_nodes, gpu_resource), over(()), namespace, render(), gpu_resource)

    complete = derived_source(given(options, helm, source), merged, ask, is_final=False)
    rendering = helm.render(name, complete, namespace, None, has_valid_values=True, has_test=False)
    job = from_manifest(rendering.manifest(), "--chart")
    return Subject(job, namespace, (merged.get("workers") or {}).get("gpuResource"))
