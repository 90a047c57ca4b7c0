"""Judge the job of `check`, and print the report or the explanation of one node."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from msgspec import Struct

from distrain import console, kube
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import Target, namespace_alone
from distrain.check import live_cluster, snapshot_file
from distrain.check.assumed_nodes import assumed_nodes
from distrain.check.cluster_state import ClusterState
from distrain.check.explain import why
from distrain.check.gpus import gpus_of
from distrain.check.refusals import PreparedJob
from distrain.check.report import report
from distrain.check.text import summary
from distrain.workload.manifest import Job, from_manifest


class CheckRequest(Struct, frozen=True):
    """A job to check in a namespace of a live cluster or, if `cluster` is None, of a file or assumed nodes.

    `gpu_resource` is None if no value names it. `in_cluster` tells that the check runs in a pod of the cluster.
    """

    job: Job
    namespace: str
    gpu_resource: str | None = None
    cluster: Cluster | None = None
    in_cluster: bool = False

    @property
    def gpus(self) -> str:
        """Return the resource name of the job's GPUs; guess it if no value names it."""
        return self.gpu_resource or gpus_of(self.job)


def answer(options: argparse.Namespace, manifest: str | None, place: tuple[Target, Cluster] | None) -> int:
    """Judge the job that the manifest or the values describe, print the verdict and return its exit code.

    `place` is the live cluster for the job of a manifest; None with --snapshot or --offline.
    """
    request = _request(options, manifest, place)
    more = assumed_nodes(options.assume_nodes, request.gpus)
    prepared, state = _examined(options, request, more)
    if options.why:
        console.answer("\n".join(why(options.why, prepared.job, state)))
        return 0
    found = report(prepared, state, request.gpus, more)
    if options.output == "json":
        console.answer(json.dumps(found.as_dict(), indent=2))
    else:
        lines = summary(found, prepared.job, answer_last=request.in_cluster)
        console.answer("\n".join(lines))
        if request.in_cluster:
            console.leave(lines[-1])
    return found.exit_code


def _request(options: argparse.Namespace, manifest: str | None, place: tuple[Target, Cluster] | None) -> CheckRequest:
    if manifest is not None:
        job = from_manifest(manifest, "--manifest")
        if place is None:
            return CheckRequest(job, namespace_alone(options.namespace))
        target, cluster = place
        return CheckRequest(job, target.namespace, None, cluster, target.in_cluster)
    # Helm and derive are imported for values only: a manifest's job needs neither.
    from distrain.commands.request import check_request

    return check_request(options, _running(options) or "check")


def _examined(
    options: argparse.Namespace, request: CheckRequest, more: Sequence[kube.Node]
) -> tuple[PreparedJob, ClusterState]:
    running = _running(options)
    if request.cluster:
        return live_cluster.examined(
            request.cluster, request.job, request.namespace, request.gpu_resource, running, more
        )
    found = snapshot_file.read_file(options.snapshot) if options.snapshot else snapshot_file.Contents()
    return snapshot_file.examined(found, request.job, request.namespace, request.gpu_resource, running, more)


def _running(options: argparse.Namespace) -> str | None:
    """Return the release's name; its pods, if there are any, count as free."""
    name: str | None = options.release or options.name
    return name
