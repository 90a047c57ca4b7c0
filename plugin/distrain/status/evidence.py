"""Read the events about a run, and the volume claims that its pods are waiting for.

Only objects in the namespace of the run are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.pages import Ahead
from distrain.kube.storage import PersistentVolumeClaim
from distrain.progress.causes import quoted
from distrain.progress.start import LAUNCHER, role_of, unplaced
from distrain.status.causes.unscheduled import UNBOUND_CLAIM, Claim
from distrain.status.holds import Tolerant
from distrain.workload.live_job import LiveObject

# The plugin reads the events of at most EXPLAINED waiting pods. Events have no labels, so the plugin needs one request
# for the events of each pod.
EXPLAINED = 3
# mpi-operator runs the launcher as a Job whose name ends in this suffix. Only the events of this Job say why the
# launcher has no pod.
MPI_JOB, LAUNCHER_SUFFIX = "MPIJob", "-launcher"


def events_of(
    cluster: Cluster, namespace: str, objects: Sequence[LiveObject], pods: Sequence[kube.Pod], unread: Tolerant
) -> list[kube.Event]:
    """Return the warning events about the jobs, and about the first pods that have a node but do not run."""
    waiting = [pod.metadata.uid for pod in pods if pod.status.phase == "Pending" and not any(unplaced(pod))]
    no_uids: list[str] = []
    launchers = unread.tolerate(lambda: list(_launchers(cluster, namespace, objects, pods)), no_uids)
    uids = [*(job.metadata.uid for _, job in objects), *launchers, *waiting[:EXPLAINED]]
    asked = [Ahead(_events, cluster, namespace, f"type=Warning,involvedObject.uid={uid}") for uid in uids]
    none: list[kube.Event] = []
    return [event for ahead in asked for event in unread.tolerate(ahead.result, none)]


def claims_of(cluster: Cluster, namespace: str, pods: Iterable[kube.Pod], unread: Tolerant) -> list[Claim]:
    """For the first pod that waits for its claims, return the claims that are not bound."""
    pod = next((pod for pod in pods if any(UNBOUND_CLAIM in words for words in unplaced(pod))), None)
    volumes = (pod.spec.volumes or ()) if pod else ()
    names = [each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim]
    none: list[Claim] = []
    return unread.tolerate(lambda: list(_unbound(cluster, namespace, names)), none)


def _unbound(cluster: Cluster, namespace: str, names: Iterable[str]) -> Iterator[Claim]:
    for name in names:
        path = paths.of_kind("v1", "PersistentVolumeClaim", namespace, name)
        claim = cluster.read_optional(path, PersistentVolumeClaim, f"PersistentVolumeClaim {name}")
        if claim and not claim.spec.volume_name:
            # Read events of every type: some of the events that explain an unbound claim are not warnings.
            events = _events(cluster, namespace, f"involvedObject.uid={claim.metadata.uid}")
            yield Claim(name, quoted(events[-1].message) if events else "")


def _launchers(
    cluster: Cluster, namespace: str, objects: Sequence[LiveObject], pods: Sequence[kube.Pod]
) -> Iterator[str]:
    """Yield the uid of the launcher's Job if an MPIJob has no launcher pod."""
    if any(role_of(pod) == LAUNCHER for pod in pods):
        return
    for resource, _ in objects:
        if resource.kind == MPI_JOB:
            name = f"{resource.name}{LAUNCHER_SUFFIX}"
            path = paths.of_kind("batch/v1", "Job", namespace, name)
            if found := cluster.read_optional(path, kube.Named, f"Job {name}"):
                yield found.metadata.uid


def _events(cluster: Cluster, namespace: str, selector: str) -> list[kube.Event]:
    """Return the events. The newest event comes last."""
    path = paths.of_kind("v1", "Event", namespace)
    found = cluster.read_list(path, kube.Event, f"events of namespace {namespace}", fieldSelector=selector)
    return sorted(found, key=lambda event: event.last_timestamp or event.event_time or "")
