"""Resolve the arguments of the commands that check or change a job: values, chart, cluster and the job itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from distrain.apiserver.cluster import Capabilities, Cluster
from distrain.apiserver.target import Target, namespace_alone
from distrain.check.assumed_nodes import assumed_nodes
from distrain.check.cluster_state import over
from distrain.check.live_cluster import check
from distrain.check.report import Report
from distrain.commands.derived_values import derived_source, given, texts_of
from distrain.commands.judge import CheckRequest
from distrain.commands.kube_flags import connected
from distrain.commands.values_flags import source_of
from distrain.derive.complete import Given
from distrain.derive.measured import measured, measured_in
from distrain.derive.room import Room
from distrain.errors import ValuesError
from distrain.helm.program import Source
from distrain.helm.render import Helm, find
from distrain.release.install import Release, refuse_taken_name
from distrain.workload.manifest import Job, from_manifest


class Place(Struct, frozen=True):
    """Where to run a job: the target, its cluster and the cluster's capabilities, and Helm."""

    target: Target
    cluster: Cluster
    capabilities: Capabilities
    helm: Helm


class RequestedJob(Struct, frozen=True):
    """The job of a release, rendered for its cluster. `values` are merged with the chart's defaults."""

    release: Release
    cluster: Cluster
    helm: Helm
    manifest: str
    job: Job
    values: dict[str, Any]

    def report(self, running: str | None = None) -> Report:
        """Judge the job; the pods of the release named `running` count as free."""
        gpu_resource = self.value("workers", "gpuResource")
        namespace = self.release.target.namespace
        return check(self.cluster, self.job, namespace, gpu_resource, running)

    @property
    def is_queued(self) -> bool:
        """Tell whether a gang scheduler or Kueue holds the job back until all of it fits."""
        return bool((self.values.get("gang") or {}).get("scheduler", "none") != "none")

    @property
    def checks_itself(self) -> bool:
        """Tell whether the chart's preflight check is enabled.

        That check would repeat the plugin's, and refuse jobs that --allow-busy admits.
        """
        return bool((self.values.get("preflight") or {}).get("enabled"))

    def value(self, section: str, key: str) -> str:
        try:
            return str(self.values[section][key])
        except (KeyError, TypeError) as error:
            raise ValuesError(f"--chart: it has no value {section}.{key}; is it distrain's chart?") from error


def requested_job(options: argparse.Namespace, name: str, *, new: bool = False) -> RequestedJob:
    """Resolve the arguments to a job, with cheap refusals first: values, then the cluster, then the chart's rules."""
    source, helm = source_of(options), find()
    merged = checked_values(helm, source)
    place = place_of(options, helm)
    if new:
        refuse_taken_name(helm.releases, Release(name, source, place.target))
    return completed(place, name, source, merged, is_final=new)


def checked_values(helm: Helm, source: Source) -> dict[str, Any]:
    """Return the values with the chart's defaults; raise ValuesError if they are invalid or disable the job."""
    merged = helm.merged_values(source)
    if (merged.get("job") or {}).get("enabled") is False:
        raise ValuesError("job.enabled: is false, so there is no job to check; set it to true, or use `helm install`")
    return merged


def place_of(options: argparse.Namespace, helm: Helm) -> Place:
    target, cluster = connected(options)
    return Place(target, cluster, cluster.capabilities(), helm)


def completed(
    place: Place,
    name: str,
    source: Source,
    merged: dict[str, Any],
    *,
    is_final: bool = True,
    running: str | None = None,
) -> RequestedJob:
    """Return the job of these values; derive what they leave open.

    `is_final` tells that the values will be installed, not only judged. The pods of the release named `running` count
    as free.
    """
    namespace = place.target.namespace

    def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
        return measured_in(place.cluster, namespace, render(), gpu_resource, running)

    given = Given(place.helm, source, tuple(texts_of(source)), None)
    complete = derived_source(given, merged, ask, is_final=is_final)
    if complete is not source:
        merged = place.helm.merged_values(complete)
    rendering = place.helm.render(name, complete, namespace, place.capabilities, has_valid_values=True)
    manifest = rendering.manifest()
    release = Release(name, complete, place.target)
    return RequestedJob(release, place.cluster, place.helm, manifest, from_manifest(manifest, "--chart"), merged)


def check_request(options: argparse.Namespace, name: str) -> CheckRequest:
    """Return the job that the values describe, for the live cluster unless --snapshot or --offline is given."""
    if options.snapshot or options.offline:
        return _rendered(options, name, namespace_alone(options.namespace))
    found = requested_job(options, name)
    target, gpu_resource = found.release.target, found.value("workers", "gpuResource")
    return CheckRequest(found.job, target.namespace, gpu_resource, found.cluster, target.in_cluster)


def _rendered(options: argparse.Namespace, name: str, namespace: str) -> CheckRequest:
    """Render the job without a cluster, with the newest API version of its kind."""
    source, helm = source_of(options), find()
    merged = helm.merged_values(source)

    def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
        """Return the capacity of the assumed nodes; a snapshot file would replace this function."""
        return measured(assumed_nodes(options.assume_nodes, gpu_resource), over(()), namespace, render(), gpu_resource)

    complete = derived_source(given(options, helm, source), merged, ask, is_final=False)
    rendering = helm.render(name, complete, namespace, None, has_valid_values=True, has_test=False)
    job = from_manifest(rendering.manifest(), "--chart")
    return CheckRequest(job, namespace, (merged.get("workers") or {}).get("gpuResource"))
