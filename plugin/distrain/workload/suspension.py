"""Tell whether a job's manifest suspends it: no pods are created, and those that run are ended."""

from __future__ import annotations

from distrain import kube
from distrain.workload.manifest import Job


def is_suspended(job: Job) -> bool:
    """Tell whether a resource of the job is suspended. A Plain job's key is made even while its other Jobs wait."""
    return any(_is_suspended(role.workload.spec) for role in job.roles)


def _is_suspended(spec: kube.WorkloadSpec) -> bool:
    return bool(spec.suspend or (spec.run_policy and spec.run_policy.suspend))
