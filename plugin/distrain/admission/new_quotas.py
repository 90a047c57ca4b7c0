"""For each quota in a manifest, compute the usage that the quota controller will write into the quota's status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from distrain import kube
from distrain.admission.resource_quota import amount_of, is_of_pods, scopes_of, usage_by
from distrain.kube.policy import QuotaStatus, ResourceQuota


def with_usage(quota: ResourceQuota, replaced: ResourceQuota | None, pods: Sequence[kube.Pod] | None) -> ResourceQuota:
    """Return the quota with a status that says how much the objects of its namespace use.

    `replaced` is the quota in the cluster that has the same name. The usage by pods is computed from `pods`. The usage
    by all other objects is copied from the status of `replaced`. If the pods were not read (`pods` is None), the usage
    by pods is copied from that status, too.
    """
    former = (replaced and replaced.status.used) or {}
    used = {name: amount for name, amount in former.items() if pods is None or not is_of_pods(name)}
    by_pods = {name: amount_of(name, amount) for name, amount in usage_by(quota, pods or ()).items()}
    return replace(quota, status=QuotaStatus(used={**used, **by_pods}))


def not_counted(quota: ResourceQuota, replaced: ResourceQuota | None, pods: Sequence[kube.Pod] | None) -> Iterator[str]:
    """Yield a line that names the quota and its resources whose usage is unknown.

    The arguments are the same as for `with_usage`.
    """
    known = (replaced and replaced.status.used) or {}
    names = [name for name in quota.spec.hard or {} if name not in known and not (scopes_of(quota) and _is_count(name))]
    if rest := sorted(name for name in names if pods is None or not is_of_pods(name)):
        yield f"what is in use of ResourceQuota {quota.metadata.name} of the manifest: {', '.join(rest)}"


def needs_whole_pods(quota: ResourceQuota) -> bool:
    """Tell whether the quota counts what a snapshot leaves out: some fields of pods, and pods that have ended."""
    names = quota.spec.hard or {}
    return bool(scopes_of(quota)) or "count/pods" in names or any(name.startswith("limits.") for name in names)


def _is_count(name: str) -> bool:
    return name.startswith("count/") and name != "count/pods"
