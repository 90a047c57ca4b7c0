"""What check and install are about: the job that the arguments describe, and the cluster it is to run in."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from distrain.check.report import Report, check
from distrain.cluster import Cluster, connect
from distrain.commands.source import source_of
from distrain.errors import ValuesError
from distrain.helm import Helm, find
from distrain.job import Job, from_manifest
from distrain.release.install import Release, refuse_taken_name
from distrain.target import choose


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job judged against its cluster, ready to be installed."""

    release: Release
    cluster: Cluster
    helm: Helm
    job: Job
    values: dict[str, Any]

    def report(self, running: str | None = None) -> Report:
        """Judge the job; the pods of the release named `running` make room for it."""
        gpu_resource = self.value("workers", "gpuResource")
        return check(self.cluster, self.job, self.release.target.namespace, gpu_resource, running)

    @property
    def is_queued(self) -> bool:
        """Tell whether somebody holds the job back until there is room for all of it."""
        return bool((self.values.get("gang") or {}).get("scheduler", "none") != "none")

    def checked_release(self) -> Release:
        """Return the release without the chart's own check, which would ask the same again, and refuse what we let."""
        source = self.release.source
        if not (self.values.get("preflight") or {}).get("enabled"):
            return self.release
        without = source._replace(flags=(*source.flags, "--set", "preflight.enabled=false"))
        return replace(self.release, source=without)

    def value(self, section: str, key: str) -> str:
        try:
            return str(self.values[section][key])
        except (KeyError, TypeError) as error:
            raise ValuesError(f"--chart: it has no value {section}.{key}; is it distrain's chart?") from error


def candidate(options: argparse.Namespace, name: str, *, new: bool = False) -> Candidate:
    """Go from arguments to a job, the cheap refusals first: values, then the cluster, then the chart's own rules."""
    source, helm = source_of(options), find()
    merged = helm.merged_values(source)
    if (merged.get("job") or {}).get("enabled") is False:
        raise ValuesError("job.enabled: is false, so there is no job to check; set it to true, or use `helm install`")
    target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
    release = Release(name, source, target)
    cluster = connect(target)
    capabilities = cluster.capabilities()
    if new:
        refuse_taken_name(helm, release)
    job = from_manifest(helm.render(name, source, target.namespace, capabilities), "--chart")
    return Candidate(release, cluster, helm, job, merged)
