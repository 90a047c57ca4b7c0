"""Tell which gang schedulers a job needs, and which API a cluster serves if it has one of them.

A cluster has a gang scheduler if it serves the scheduler's API. Every user may ask which APIs the cluster serves. The
scheduler's own pods cannot be looked up instead, because their names are unknown. The PodGroups of Volcano and
scheduler-plugins are CustomResourceDefinitions that are installed with the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from distrain.workload.controllers import GANG_SCHEDULER
from distrain.workload.kinds import QUEUE_LABEL
from distrain.workload.manifest import Job


class GangScheduler(Struct, frozen=True):
    """A gang scheduler or queue: its name in messages, the API that shows it, and its usual schedulerName."""

    name: str
    group: str
    kind: str
    scheduler: str = ""

    @property
    def definition(self) -> str:
        """Return the name of the CustomResourceDefinition that defines its API."""
        return f"{self.kind.lower()}s.{self.group}"

    def is_among(self, apis: Collection[str]) -> bool:
        """Tell whether `group/version/Kind` of its API is among the APIs that the cluster serves."""
        parts = (api.split("/") for api in apis)
        return any(part[0] == self.group and part[-1] == self.kind for part in parts)


VOLCANO = GangScheduler("Volcano", "scheduling.volcano.sh", "PodGroup", "volcano")
SCHEDULER_PLUGINS = GangScheduler("scheduler-plugins", "scheduling.x-k8s.io", "PodGroup", "scheduler-plugins-scheduler")
KUEUE = GangScheduler("Kueue", "kueue.x-k8s.io", "LocalQueue")
# The gang schedulers by the value of `gang.scheduler` that selects each of them.
BY_VALUE = {"volcano": VOLCANO, "scheduler-plugins": SCHEDULER_PLUGINS, "kueue": KUEUE}
PLACING = (VOLCANO, SCHEDULER_PLUGINS)


def needed(job: Job) -> list[tuple[GangScheduler, ...]]:
    """Return the gang schedulers that the job's pods need.

    Each returned tuple has alternatives: the cluster must have at least one scheduler of the tuple. A Kubeflow resource
    only asks for a gang; flags of the operator choose the scheduler.
    """
    names, groups = scheduler_names(job), {each.resource.api_version.partition("/")[0] for each in job.objects}
    found = [each for each in PLACING if each.scheduler in names or each.group in groups]
    found = [each for each in found if ("CustomResourceDefinition", each.definition) not in job.creates]
    if not found and is_in_gang(job) and not names - {GANG_SCHEDULER}:
        return [PLACING]
    return [(each,) for each in found]


def scheduler_names(job: Job) -> set[str]:
    """Return the names of the schedulers that place the job's pods, except for Kubernetes' own scheduler."""
    names = {role.spec.scheduler_name or "" for role in job.roles if role.replicas}
    return names - {"", "default-scheduler"}


def is_in_gang(job: Job) -> bool:
    """Tell whether a resource of the job, or a PodGroup in its manifest, asks for a gang."""
    policies = (role.workload.spec.run_policy for role in job.roles)
    return any(policy and policy.scheduling_policy for policy in policies) or any(
        each.resource.kind == "PodGroup" for each in job.objects
    )


def queues(job: Job) -> Iterator[tuple[str, str]]:
    """For each resource that waits in a queue of Kueue, yield its kind and the queue."""
    for role in job.roles:
        if role.owner and (queue := (role.workload.metadata.labels or {}).get(QUEUE_LABEL)):
            yield role.owner.kind, queue


def read(job: Job) -> list[GangScheduler]:
    """Return the gang schedulers and queues that the job needs, and whose APIs the cluster must therefore serve."""
    found = [each for choice in needed(job) for each in choice]
    return [*found, KUEUE] if any(queues(job)) else found
