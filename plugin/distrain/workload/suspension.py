"""Tell whether a job has no pods in this cluster, because its manifest suspends it or hands it to another cluster."""

from __future__ import annotations

from distrain import kube
from distrain.workload.manifest import Job


def is_suspended(job: Job) -> bool:
    """Tell whether a resource of the job is suspended.

    The Job that creates the SSH key of a Plain job runs even while the other Jobs are suspended.
    """
    return any(_is_suspended(role.workload.spec) for role in job.roles)


def manager(job: Job) -> str:
    """Return the name of the controller that runs the job in another cluster, such as MultiKueue.

    Return "" if no such controller runs the job.
    """
    policies = (role.workload.spec.run_policy for role in job.roles)
    names = (policy.managed_by for policy in policies if policy and policy.managed_by)
    return next((name for name in names if name.endswith("/multikueue")), "")


def _is_suspended(spec: kube.WorkloadSpec) -> bool:
    return bool(spec.suspend or (spec.run_policy and spec.run_policy.suspend))
