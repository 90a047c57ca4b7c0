"""Find orphans: jobs and pods of a release that are running but are not in its last revision.

Helm tracks only the objects of the last revision. If an upgrade to another job.kind fails, the last revision names a
job that was never created, and the old job keeps running.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, NotFoundError, RefusedError
from distrain.kube.pod_status import ENDED
from distrain.kube.resource import Resource, kubectl_type
from distrain.release.owner import HELMS_OWN, ownership_of
from distrain.workload.chart_objects import instance_of
from distrain.workload.documents import HOOK
from distrain.workload.kinds import GROUPS, KINDS, KUBEFLOW

ENDS = {**{kind.ends.succeeded: "Succeeded" for kind in KINDS}, **{kind.ends.failed: "Failed" for kind in KINDS}}


class Orphan(Struct, frozen=True):
    """A running job or pod, and the release that created it.

    The flags in `kubectl_flags` make kubectl use the namespace.
    """

    release: str
    resource: Resource
    kubectl_flags: str

    @property
    def finding(self) -> str:
        kind, name = self.resource.kind, self.resource.name
        return f"{kind} {name} runs, and Helm no longer knows it: `helm uninstall` leaves it there"

    @property
    def next(self) -> str:
        return f"{self.deletion} ends it"

    @property
    def deletion(self) -> str:
        return f"`kubectl {self.kubectl_flags} delete {kubectl_type(self.resource)} {self.resource.name}`"

    @property
    def words(self) -> str:
        return f"{self.release}: {self.finding}; {self.next}"


def of_release(cluster: Cluster, name: str, namespace: str, named: Iterable[Resource]) -> list[Orphan]:
    """Return the orphans of one release; `named` are the resources in its last revision, which are no orphans."""
    return [orphan for orphan in of_all(cluster, namespace, lambda _: named) if orphan.release == name]


def of_all(cluster: Cluster, namespace: str, named: Callable[[str], Iterable[Resource]]) -> Iterator[Orphan]:
    """Yield the orphans of all releases in a namespace. `named` returns the resources of a release's last revision."""
    flags = cluster.target.kubectl_flags
    for resource, job in jobs_in(cluster, namespace):
        # Skip jobs without Helm's annotation, because another tool manages them.
        release = ownership_of(job.metadata).annotations.get(HELMS_OWN, "")
        if not release or not _is_left(job.metadata) or end_of(job):
            continue
        # Do not compare the API versions: the manifest has the version that the cluster served at the time of
        # rendering.
        if (resource.kind, resource.name) not in {(known.kind, known.name) for known in named(release)}:
            yield Orphan(release, resource, flags)
    for pod in _pods(cluster, namespace):
        # The chart creates no pod directly. So if a pod has no owner, its owner has been deleted.
        if _is_left(pod.metadata) and pod.status.phase not in ENDED:
            yield Orphan(instance_of(pod.metadata.labels), Resource("v1", "Pod", pod.metadata.name), flags)


def refuse_takeover(cluster: Cluster, name: str, namespace: str, new: Iterable[Resource]) -> None:
    """Raise RefusedError if Helm would take over a job that an earlier release of this name has left.

    `new` are the job's resources that no revision of the release contains yet. Helm would give an existing object to
    the new release, and the old pods would go on with their old values.
    """
    for resource in new:
        with contextlib.suppress(ForbiddenError):
            job = cluster.workload(resource, namespace)
            if job and _is_left(job.metadata) and ownership_of(job.metadata).annotations.get(HELMS_OWN) == name:
                deletion = Orphan(name, resource, cluster.target.kubectl_flags).deletion
                left = f"{resource.kind} {resource.name} is left from an earlier release of this name"
                takeover = "Helm would take it over with its old pods"
                raise RefusedError(f"{name}: {left}, and {takeover}; delete it with {deletion}, then try again")


def jobs_in(cluster: Cluster, namespace: str) -> Iterator[tuple[Resource, kube.Workload]]:
    """Yield the jobs that have the chart's labels, with or without a Helm release."""
    apis = [api for group in GROUPS for api in cluster.served(group)]
    served = [api.rsplit("/", 1) for api in apis if api.count("/") == 2]
    # Every API version of a kind lists the same objects, so one version is enough.
    versions = {"Job": "batch/v1", **{kind: version for version, kind in served if kind in KUBEFLOW}}
    for kind, version in versions.items():
        with contextlib.suppress(ForbiddenError):
            for job in cluster.workloads(version, kind, namespace):
                if instance_of(job.metadata.labels):
                    yield Resource(version, kind, job.metadata.name), job


def end_of(job: kube.Workload) -> str | None:
    """Return `Succeeded` or `Failed`, or None while the job has not finished."""
    for condition in job.status.conditions or ():
        if condition.status == "True" and condition.type in ENDS:
            return ENDS[condition.type]
    return None


def _pods(cluster: Cluster, namespace: str) -> list[kube.Pod]:
    try:
        return [pod for pod in cluster.chart_pods(namespace) if instance_of(pod.metadata.labels)]
    except (ForbiddenError, NotFoundError):
        return []


def _is_left(metadata: kube.Metadata) -> bool:
    """Tell whether nothing will delete the object: it has no owner, is not being deleted, and is no Helm hook."""
    is_hook = HOOK in (metadata.annotations or {})
    return not (is_hook or metadata.owner_references or metadata.deletion_timestamp)
