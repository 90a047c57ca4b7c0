"""Read the release to change: the revision that Helm recorded, and the state of its job in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from msgspec import Struct

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import Target
from distrain.errors import RefusedError
from distrain.helm.releases import Releases, Revision
from distrain.progress import logs
from distrain.progress.steps import Training, last_steps, seconds_since
from distrain.release import orphans
from distrain.release.changes import objects
from distrain.release.orphans import Orphan, end_of, instance_of, jobs_in
from distrain.release.owner import HELMS_OWN, Ownership, owner, ownership_of
from distrain.workload.manifest import Job, from_manifest


class Current(Struct, frozen=True):
    """The current state of a release.

    `state` is the job's main resource in the cluster, None if it does not exist. `orphans` are jobs and pods of the
    release that still run but are not in its last revision.
    """

    revision: Revision
    job: Job
    state: kube.Workload | None
    pods: Sequence[kube.Pod]
    orphans: Sequence[Orphan] = ()

    @property
    def end(self) -> str | None:
        """Return Succeeded or Failed, or None while the job has not finished."""
        return end_of(self.state) if self.state else None

    @property
    def runs(self) -> bool:
        return self.state is not None and self.end is None


def read(helm: Releases, cluster: Cluster, name: str, target: Target) -> Current:
    """Read the release; raise RefusedError if it does not exist, is unsettled, or is managed by Argo CD or Flux."""
    revision = helm.revision(name, target)
    if revision is None:
        raise RefusedError(_no_release(cluster, name, target))
    job = from_manifest(revision.manifest, name)
    found = orphans.of_release(cluster, name, target.namespace, job.resources)
    try:
        refuse_unsettled(revision, name, target)
    except RefusedError as error:
        error.messages = (*error.messages, *(orphan.words for orphan in found))
        raise
    state = cluster.workload(job.resources[0], target.namespace)
    refuse_owned(revision, state, name)
    return Current(revision, job, state, cluster.release_pods(target.namespace, name), found)


def refuse_unsettled(revision: Revision, name: str, target: Target) -> None:
    """Raise RefusedError unless the status of the release's last revision is "deployed"."""
    if revision.status == "deployed":
        return
    if revision.status == "uninstalled":
        again = f"`helm distrain upgrade --install {name} {target.helm_flags}`"
        raise RefusedError(f"{name}: the release is uninstalled, and only its history is kept; install it with {again}")
    before, flags = revision.number - 1, target.helm_flags
    back = f"`helm rollback {name} {before} {flags}`" if before else f"`helm uninstall {name} {flags}`"
    if revision.status.startswith("pending-"):
        raise RefusedError(
            f"{name}: revision {revision.number} is {revision.status}: another Helm is at work on it, or was killed; "
            f"wait for it, or go back with {back}"
        )
    raise RefusedError(f"{name}: revision {revision.number} is {revision.status}; go back with {back}, then try again")


def refuse_owned(revision: Revision, state: kube.Workload | None, name: str) -> None:
    """Raise RefusedError if Argo CD or Flux manages the release, as they would undo the change."""
    for ownership in [*_ownerships_in(revision), *([ownership_of(state.metadata)] if state else [])]:
        if words := owner(ownership):
            raise RefusedError(f"{name}: {words}")


def training(cluster: Cluster, current: Current, namespace: str, now: datetime | None = None) -> Training:
    """Return the training's progress, from the logs of the pods that report steps.

    Logs that cannot be read count as empty. `now` defaults to the current time.
    """
    speakers = logs.speakers(current.pods)
    texts = (logs.read(cluster, namespace, pod).text or "" for pod in speakers)
    starts = [started for pod in speakers for started in _starts(pod)]
    since = seconds_since(min(starts, default=None), now or datetime.now(timezone.utc))
    made, saved = last_steps(texts)
    return Training(made, since, saved)


def _no_release(cluster: Cluster, name: str, target: Target) -> str:
    """Return the message for a missing release. If a job of this name exists without Helm, name its owner."""
    namespace = target.namespace
    for resource, job in jobs_in(cluster, namespace):
        ownership = ownership_of(job.metadata)
        if instance_of(job.metadata) == name and HELMS_OWN not in ownership.annotations:
            words = (
                owner(ownership) or f"was not made by Helm: change {resource.kind} {resource.name} with what made it"
            )
            return f"{name}: is no Helm release in namespace {namespace}; it {words}"
    return (
        f"{name}: there is no release of this name in namespace {namespace}; `helm list {target.helm_flags}` "
        "names those that there are"
    )


def _ownerships_in(revision: Revision) -> Iterator[Ownership]:
    for item in objects(revision.manifest).values():
        metadata = item.get("metadata") or {}
        yield Ownership(metadata.get("labels") or {}, metadata.get("annotations") or {})


def _starts(pod: kube.Pod) -> Iterator[str]:
    for status in pod.status.container_statuses or ():
        if status.state and status.state.running and status.state.running.started_at:
            yield status.state.running.started_at
