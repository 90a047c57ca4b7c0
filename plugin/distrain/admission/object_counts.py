"""Compute how much of a quota is used by objects that are not pods.

Kubernetes pkg/quota/v1/evaluator/core/registry.go, services.go
"""

from __future__ import annotations

from distrain.kube.quantities import Units
from distrain.kube.resource import plural
from distrain.workload.counted_objects import CountedObject

# Kinds of the core group that a quota counts under two names, such as secrets and count/secrets.
PLAIN = ("configmaps", "replicationcontrollers", "secrets", "services")
# The plugin knows every object of these kinds that a run creates: they come only from the job's manifest, or from an
# operator as listed in schemas/kinds.yaml. So it can compare their number with a quota.
COMPLETE = frozenset(
    {
        *("configmaps", "secrets", "replicationcontrollers", "services.loadbalancers", "services.nodeports"),
        *("count/configmaps", "count/secrets", "count/replicationcontrollers", "count/serviceaccounts"),
        *("count/jobs.batch", "count/cronjobs.batch", "count/statefulsets.apps", "count/deployments.apps"),
    }
)
# Operators create Services, and schemas/kinds.yaml does not say how many.
SERVICES = frozenset({"services", "count/services"})


def usage(each: CountedObject) -> Units:
    """Return the amount of each quota resource that an object uses."""
    total = usage_of_kind(each.resource.api_version, each.resource.kind)
    if "services" in total:
        total |= {"services.nodeports": each.node_ports, "services.loadbalancers": int(each.is_balanced)}
    return total


def usage_of_kind(api_version: str, kind: str) -> Units:
    """Return the amount of each quota resource that one object of this kind uses.

    The amounts depend only on the kind, so they are the same for every object of it. `usage` adds the amounts that
    depend on the object's spec.
    """
    group, name = api_version.rpartition("/")[0], plural(kind)
    if group:
        return {f"count/{name}.{group}": 1}
    return {f"count/{name}": 1, **({name: 1} if name in PLAIN else {})}


def is_complete(name: str, *, has_operator: bool) -> bool:
    """Tell whether the plugin can count all of a job's objects that use up the quota's resource `name`."""
    return name in COMPLETE or (name in SERVICES and not has_operator)
