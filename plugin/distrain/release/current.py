"""Read the release to change: the revision that Helm has recorded, and the state of its job in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from msgspec import Struct

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import Target
from distrain.errors import RefusedError
from distrain.helm.releases import Releases, Revision
from distrain.kube.resource import Resource
from distrain.progress import logs
from distrain.progress.steps import Training, last_steps, seconds_since
from distrain.release import orphans, values_in_git
from distrain.release.changes import objects
from distrain.release.orphans import Orphan, end_of, jobs_in
from distrain.release.owner import HELMS_OWN, Owner, Ownership, owner, ownership_of
from distrain.workload.chart_objects import instance_of
from distrain.workload.manifest import INSTANCE_LABEL, Job, from_manifest


class Current(Struct, frozen=True):
    """The current state of a release.

    `state` is the main resource of the job in the cluster, or None if it does not exist. `orphans` are jobs and pods of
    the release that still run but are not in its last revision. `owner` is set if Argo CD or Flux manages the release.
    """

    revision: Revision
    job: Job
    state: kube.Workload | None
    pods: Sequence[kube.Pod]
    orphans: Sequence[Orphan] = ()
    owner: Owner | None = None

    @property
    def end(self) -> str | None:
        """Return `Succeeded` or `Failed`, or None while the job has not finished."""
        return end_of(self.state) if self.state else None

    @property
    def runs(self) -> bool:
        return self.state is not None and self.end is None


class OwnedJob(Struct, frozen=True):
    """A running job without a Helm release.

    Argo CD, or Flux's kustomize-controller, has rendered the manifests itself and applies them.
    """

    resource: Resource
    state: kube.Workload
    owner: Owner


def read(helm: Releases, cluster: Cluster, name: str, target: Target) -> Current | OwnedJob:
    """Read the release; raise RefusedError if the release does not exist, or if its last revision is not deployed."""
    revision = helm.revision(name, target)
    if revision is None:
        return _without_release(cluster, name, target)
    job = from_manifest(revision.manifest, name)
    found = orphans.of_release(cluster, name, target.namespace, job.resources)
    state = cluster.workload(job.resources[0], target.namespace)
    owned = owner_of(revision, state)
    try:
        refuse_unsettled(helm, revision, name, target, owned)
    except RefusedError as error:
        where = values_in_git.steps(name, values_in_git.find(cluster, owned, target.namespace), {}) if owned else ()
        error.messages = (*error.messages, *where, *(orphan.words for orphan in found))
        raise
    return Current(revision, job, state, cluster.release_pods(target.namespace, name), found, owned)


def refuse_unsettled(helm: Releases, revision: Revision, name: str, target: Target, owned: Owner | None = None) -> None:
    """Raise RefusedError unless the status of the release's last revision is "deployed"."""
    if revision.status == "deployed":
        return
    if owned:
        raise RefusedError(
            f"{name}: the last revision, {revision.number}, is not deployed but {revision.status}, and only "
            f"{owned.words} may change this release"
        )
    if revision.status == "uninstalled":
        again = f"`helm distrain upgrade --install {name} {target.helm_flags}`"
        raise RefusedError(f"{name}: the release is uninstalled, and only its history is kept; install it with {again}")
    raise RefusedError(_unsettled(helm, revision, name, target))


def _unsettled(helm: Releases, revision: Revision, name: str, target: Target) -> str:
    """Return what is wrong with a revision that Helm has not fully applied, and what to do."""
    what = f"{name}: revision {revision.number} is {revision.status}"
    killed = "another helm command is still changing it, or was killed; wait for that command to end"
    if revision.status == "uninstalling":
        return f"{what}: {killed}, or run `helm uninstall {name} {target.helm_flags}` again"
    back = undoing(helm, name, target)
    if revision.status.startswith("pending-"):
        return f"{what}: {killed}, or undo its changes with {back}"
    return f"{what}; undo it with {back}, then try again"


def undoing(helm: Releases, name: str, target: Target) -> str:
    """Return the command that goes back to the last revision that worked, or removes a release without one."""
    before, flags = helm.last_applied(name, target), target.helm_flags
    return f"`helm rollback {name} {before} {flags}`" if before else f"`helm uninstall {name} {flags}`"


def owner_of(revision: Revision, state: kube.Workload | None = None) -> Owner | None:
    """Return the object of Argo CD or Flux that manages the release, or None.

    It is named in labels and annotations of the release's objects, or of the release's running job.
    """
    found = [*_ownerships_in(revision), *([ownership_of(state.metadata)] if state else [])]
    return next(filter(None, map(owner, found)), None)


def owned_job(cluster: Cluster, name: str, namespace: str) -> OwnedJob | None:
    """Return the job of this name that Argo CD or Flux applies without Helm, or None if there is no such job."""
    return next(_owned(cluster, name, namespace, _made_without_helm(cluster, name, namespace)), None)


def _made_without_helm(cluster: Cluster, name: str, namespace: str) -> list[tuple[Resource, kube.Workload]]:
    jobs = [found for found in jobs_in(cluster, namespace) if instance_of(found[1].metadata.labels) == name]
    return [(resource, job) for resource, job in jobs if HELMS_OWN not in ownership_of(job.metadata).annotations]


def _owned(
    cluster: Cluster, name: str, namespace: str, jobs: Sequence[tuple[Resource, kube.Workload]]
) -> Iterator[OwnedJob]:
    for resource, job in jobs:
        # Argo CD may mark its objects only with a label that the chart also sets. So look for the Application, too.
        named = (job.metadata.labels or {}).get(INSTANCE_LABEL, name)
        found = owner(ownership_of(job.metadata)) or values_in_git.application_named(cluster, named, namespace)
        if found:
            yield OwnedJob(resource, job, found)


def training(cluster: Cluster, current: Current, namespace: str, now: datetime | None = None) -> Training:
    """Return the progress of the training, from the logs of the pods that report steps.

    `now` defaults to the current time. A log that cannot be read counts as empty.
    """
    speakers = logs.speakers(current.pods)
    texts = (logs.read(cluster, namespace, pod).text or "" for pod in speakers)
    starts = [started for pod in speakers for started in _starts(pod)]
    since = seconds_since(min(starts, default=None), now or datetime.now(timezone.utc))
    made, saved = last_steps(texts)
    return Training(made, since, saved)


def _without_release(cluster: Cluster, name: str, target: Target) -> OwnedJob:
    """Return the job of this name, which Helm does not know.

    Raise RefusedError unless Argo CD or Flux applies the job.
    """
    namespace = target.namespace
    jobs = _made_without_helm(cluster, name, namespace)
    for found in _owned(cluster, name, namespace, jobs):
        return found
    for resource, _ in jobs:
        words = f"Helm did not create it: change {resource.kind} {resource.name} with the tool that created it"
        raise RefusedError(f"{name}: is not a Helm release in namespace {namespace}; {words}")
    raise RefusedError(
        f"{name}: there is no release of this name in namespace {namespace}; `helm list {target.helm_flags}` "
        "lists the existing releases"
    )


def _ownerships_in(revision: Revision) -> Iterator[Ownership]:
    for item in objects(revision.manifest).values():
        metadata = item.get("metadata") or {}
        yield Ownership(metadata.get("labels") or {}, metadata.get("annotations") or {})


def _starts(pod: kube.Pod) -> Iterator[str]:
    for status in pod.status.container_statuses or ():
        if status.state and status.state.running and status.state.running.started_at:
            yield status.state.running.started_at
