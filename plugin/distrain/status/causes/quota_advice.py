"""A ResourceQuota refuses the pods of a run.

Say what helps: waiting for other pods, a smaller run, or a larger quota.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distrain import kube
from distrain.admission.resource_quota import usage_by
from distrain.kube.policy import ResourceQuota
from distrain.kube.quantities import Units, units
from distrain.progress.start import lasting
from distrain.workload.manifest import Job, PodRole

RAISE = "have the quota raised"
TOO_LARGE = f"ask for less, or {RAISE}: one pod alone is more than it allows"
PODS = ("pods", "count/pods")


def next_step(told: Mapping[str, str], smaller: str, pods: Sequence[kube.Pod], job: Job) -> str:
    """Return what the user should do.

    `told` has the amounts in the API server's answer: requested, used and limited.

    `pods` are the run's pods. Raises QuantityError if an amount in the API server's answer is not a quantity.
    """
    requested, used, limited = (_amounts(told[key]) for key in ("requested", "used", "limited"))
    exceeded = [name for name in requested if used.get(name, 0) + requested[name] > limited.get(name, 0)]
    if any(requested[name] > limited.get(name, 0) for name in exceeded):
        return TOO_LARGE
    own, least = usage_by(ResourceQuota(), pods), _least(job)
    others = {name: used.get(name, 0) - own.get(name, 0) for name in exceeded}
    can_free = all(others[name] >= used.get(name, 0) + requested[name] - limited[name] for name in exceeded)
    can_shrink = all(_of_pods(least, name) <= limited[name] for name in exceeded)
    steps = ["free that much in the namespace"] * can_free + [f"make the run smaller with {smaller}"] * can_shrink
    why = "" if can_shrink else ": even the smallest run needs more than it allows"
    return f"{', '.join(steps)}, or {RAISE}{why}" if steps else f"{RAISE}{why}"


def _amounts(text: str) -> Units:
    """Return the amounts of a list such as pods=1,requests.cpu=100m."""
    pairs = (each.split("=", 1) for each in text.split(",") if "=" in each)
    return {name: units(_resource(name), amount) for name, amount in pairs}


def _least(job: Job) -> list[tuple[PodRole, int]]:
    """Return the roles of the smallest possible run and their numbers of pods: one worker, or only the Master."""
    roles = lasting(job)
    return [(role, (0 if job.ranks_beside else 1) if role is job.main else role.replicas) for role in roles]


def _of_pods(roles: Sequence[tuple[PodRole, int]], name: str) -> int:
    """Return how much of a quota's resource the pods need.

    Return 0 for a quota on limits, because limits are not computed here.
    """
    if name in PODS:
        return sum(number for _, number in roles)
    return sum(number * role.request.get(_resource(name), 0) for role, number in roles if "limits." not in name)


def _resource(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")
