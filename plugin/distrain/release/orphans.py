"""Jobs and pods of a release that its last revision does not name, and that run on.

Helm knows the objects of the last revision alone. If an upgrade to another job.kind is refused or fails, the last
revision names a job that was never made, and not the one that runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, NotFoundError
from distrain.kube.resource import Resource
from distrain.release.owner import HELMS_OWN, ownership_of
from distrain.workload.manifest import CHART, HOOK, INSTANCE_LABEL, NAME_LABEL, REPLICAS

ENDS = {"Succeeded": "Succeeded", "Complete": "Succeeded", "Failed": "Failed"}


class Orphan(Struct, frozen=True):
    """A job or a pod that runs, and the release that made it."""

    release: str
    namespace: str
    resource: Resource

    @property
    def finding(self) -> str:
        kind, name = self.resource.kind, self.resource.name
        return f"{kind} {name} runs, and Helm knows it no more: `helm uninstall` leaves it there"

    @property
    def next(self) -> str:
        group = self.resource.api_version.rpartition("/")[0]
        kind = f"{self.resource.kind.lower()}s" + (f".{group.partition('/')[0]}" if group else "")
        return f"`kubectl --namespace {self.namespace} delete {kind} {self.resource.name}` ends it"

    @property
    def words(self) -> str:
        return f"{self.release}: {self.finding}; {self.next}"


def of_release(cluster: Cluster, name: str, namespace: str, named: Iterable[Resource]) -> list[Orphan]:
    """Return what runs of the release beside the resources that its last revision names."""
    return [orphan for orphan in _orphans(cluster, namespace, lambda _: named) if orphan.release == name]


def of_all(cluster: Cluster, namespace: str, named: Callable[[str], Iterable[Resource]]) -> list[Orphan]:
    """Return what runs of all releases of the namespace; `named` returns what a release's last revision names."""
    return list(_orphans(cluster, namespace, named))


def jobs_in(cluster: Cluster, namespace: str) -> Iterator[tuple[Resource, kube.Workload]]:
    """Yield the jobs that carry the chart's labels, whoever made them."""
    served = [api.rsplit("/", 1) for api in cluster.served("kubeflow.org") if api.count("/") == 2]
    # All versions of a kind list the same objects.
    versions = {"Job": "batch/v1", **{kind: version for version, kind in served if kind in REPLICAS}}
    for kind, version in versions.items():
        with contextlib.suppress(ForbiddenError):
            for job in cluster.workloads(version, kind, namespace):
                if instance_of(job.metadata):
                    yield Resource(version, kind, job.metadata.name), job


def instance_of(metadata: kube.Metadata) -> str:
    """Return the chart's label that tells whose an object is, nothing for an object of something else."""
    labels = metadata.labels or {}
    return labels.get(INSTANCE_LABEL, "") if labels.get(NAME_LABEL) == CHART else ""


def end_of(job: kube.Workload) -> str | None:
    """Return Succeeded or Failed once the job has come to its end."""
    for condition in job.status.conditions or ():
        if condition.status == "True" and condition.type in ENDS:
            return ENDS[condition.type]
    return None


def _orphans(cluster: Cluster, namespace: str, named: Callable[[str], Iterable[Resource]]) -> Iterator[Orphan]:
    for resource, job in jobs_in(cluster, namespace):
        # Of what Helm has not made, something else knows.
        release = ownership_of(job.metadata).annotations.get(HELMS_OWN, "")
        if not release or not _is_left(job.metadata) or end_of(job):
            continue
        # The version may be another: the manifest's is the one that was served then.
        if (resource.kind, resource.name) not in {(known.kind, known.name) for known in named(release)}:
            yield Orphan(release, namespace, resource)
    for pod in _pods(cluster, namespace):
        # The chart makes no pod itself: each that has no owner has lost it.
        if _is_left(pod.metadata) and pod.status.phase not in ("Succeeded", "Failed"):
            yield Orphan(instance_of(pod.metadata), namespace, Resource("v1", "Pod", pod.metadata.name))


def _pods(cluster: Cluster, namespace: str) -> list[kube.Pod]:
    try:
        return [pod for pod in cluster.chart_pods(namespace) if instance_of(pod.metadata)]
    except (ForbiddenError, NotFoundError):
        return []


def _is_left(metadata: kube.Metadata) -> bool:
    """Tell what nobody takes away: no owner, no deletion under way, and no hook of Helm's."""
    is_hook = HOOK in (metadata.annotations or {})
    return not (is_hook or metadata.owner_references or metadata.deletion_timestamp)
