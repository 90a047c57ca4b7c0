"""Read a run's objects: one list per kind with the run's labels, then what explains its phase.

An ordinary user may read all of this in a namespace. What the user may not read is said in a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.pages import Ahead
from distrain.errors import ForbiddenError, NotFoundError, UnreachableError
from distrain.kube.resource import Resource, plural
from distrain.progress import logs
from distrain.progress.start import condition, own_pods, unplaced
from distrain.status import holds
from distrain.status.figures import TimedLog, timed
from distrain.status.run import Held, Observed
from distrain.workload.documents import HOOK
from distrain.workload.kinds import GROUPS, KINDS, KUBEFLOW
from distrain.workload.live_job import LiveObject
from distrain.workload.manifest import CHART, INSTANCE_LABEL, NAME_LABEL

# The pods whose events are read: the first that wait. Events have no labels, so each pod's are a request of its own.
EXPLAINED = 3
PHASES = ("Running", "Succeeded", "Failed")
ROLES = ("-launcher", "-worker", "-keygen")

T = TypeVar("T")


class Unread(list[str]):
    """One line for each thing that could not be read."""

    def tolerate(self, read: Callable[[], T], otherwise: T) -> T:
        """Return what `read` returns; if the user may not read it, keep the message and return `otherwise`."""
        try:
            return read()
        except ForbiddenError as error:
            self.extend(each for each in error.messages if each not in self)
        except NotFoundError:
            pass
        return otherwise


def of_release(release: str) -> str:
    """Return the label selector of a release's objects."""
    return f"{NAME_LABEL}={CHART},{INSTANCE_LABEL}={release}"


def read_jobs(cluster: Cluster, namespace: str, selector: str, unread: Unread) -> list[LiveObject]:
    """Return the jobs with these labels in a namespace, or in all namespaces for an empty name."""
    served = [api.rsplit("/", 1) for group in GROUPS for api in cluster.served(group) if api.count("/") == 2]
    # Every API version of a kind lists the same objects. The last one is the oldest, and always has the fields read.
    versions = {"Job": "batch/v1", **{kind: version for version, kind in reversed(served) if kind in KUBEFLOW}}
    asked = [
        (kind, version, Ahead(_list, cluster, version, kind, namespace, selector)) for kind, version in versions.items()
    ]
    found: list[LiveObject] = []
    for kind, version, ahead in asked:
        jobs: list[kube.Workload] = unread.tolerate(ahead.result, [])
        found += [(Resource(version, kind, job.metadata.name), job) for job in jobs if _is_run(job.metadata)]
    return found


def _list(cluster: Cluster, version: str, kind: str, namespace: str, selector: str) -> list[kube.Workload]:
    path = paths.of_kind(version, kind, namespace)
    return cluster.read_list(path, kube.Workload, f"{plural(kind)}{_where(namespace)}", labelSelector=selector)


def read_pods(cluster: Cluster, namespace: str, selector: str) -> list[kube.Pod]:
    path = paths.of_kind("v1", "Pod", namespace)
    return cluster.read_list(path, kube.Pod, f"pods{_where(namespace)}", labelSelector=selector)


def read_run(cluster: Cluster, release: str, namespace: str) -> Observed | None:
    """Return what can be read of a run, None if there is no job of this release."""
    unread, selector = Unread(), of_release(release)
    pods = Ahead(read_pods, cluster, namespace, selector)
    objects = read_jobs(cluster, namespace, selector, unread)
    found: list[kube.Pod] = unread.tolerate(pods.result, [])
    if not objects:
        if unread:
            raise ForbiddenError(*unread)
        return None
    return explained(cluster, release, namespace, objects, found, unread)


def explained(
    cluster: Cluster,
    release: str,
    namespace: str,
    objects: Sequence[LiveObject],
    pods: Sequence[kube.Pod],
    unread: Unread,
) -> Observed:
    """Add logs, events and queues to a run's jobs and pods."""
    present, replaced = of_present(objects)
    own = own_pods([workload for _, workload in present], pods)
    speakers = logs.speakers(own) or logs.speakers(own, PHASES)
    texts = [Ahead(_log, cluster, namespace, pod) for pod in speakers]
    ended = any(
        condition(job, word) for _, job in present for kind in KINDS for word in (kind.ends.succeeded, kind.ends.failed)
    )
    events = [] if ended else _events(cluster, namespace, present, own, unread)
    held = Held() if ended else holds.read(cluster, namespace, present, own, unread)
    return Observed(
        release=release,
        namespace=namespace,
        objects=present,
        pods=own,
        events=events,
        speakers=speakers,
        logs=[_read_log(ahead, unread) for ahead in texts],
        replaced=replaced,
        held=held,
        unread=tuple(unread),
    )


def of_present(objects: Sequence[LiveObject]) -> tuple[list[LiveObject], list[LiveObject]]:
    """Return the objects of the run's present job, and those of a job that it replaces and that is being deleted."""
    alive = [each for each in objects if each[1].metadata.deletion_timestamp is None] or [*objects]
    newest = max(alive, key=lambda each: (each[1].metadata.creation_timestamp or "", each[0].name))
    present = [each for each in alive if _name_of(each) == _name_of(newest)]
    replaced = [each for each in objects if each[1].metadata.deletion_timestamp and _name_of(each) != _name_of(newest)]
    return present, replaced


def _name_of(found: LiveObject) -> tuple[str, str]:
    """Return kind and name of the job that an object belongs to; the Jobs of kind Plain differ in their ends."""
    resource = found[0]
    suffix = next((role for role in ROLES if resource.kind == "Job" and resource.name.endswith(role)), "")
    return resource.kind, resource.name.removesuffix(suffix)


def _is_run(metadata: kube.Metadata) -> bool:
    """Tell whether the object is a job of a run, not a hook's, and not made by an operator."""
    return HOOK not in (metadata.annotations or {}) and not metadata.owner_references


def _events(
    cluster: Cluster, namespace: str, objects: Iterable[LiveObject], pods: Sequence[kube.Pod], unread: Unread
) -> list[kube.Event]:
    """Return the warnings about the jobs, and about the first pods that have a node and do not run."""
    waiting = [pod.metadata.uid for pod in pods if pod.status.phase == "Pending" and not any(unplaced(pod))]
    uids = [*(job.metadata.uid for _, job in objects), *waiting[:EXPLAINED]]
    asked = [Ahead(_warnings, cluster, namespace, uid) for uid in uids]
    none: list[kube.Event] = []
    return [event for ahead in asked for event in unread.tolerate(ahead.result, none)]


def _warnings(cluster: Cluster, namespace: str, uid: str) -> list[kube.Event]:
    path, selector = paths.of_kind("v1", "Event", namespace), f"type=Warning,involvedObject.uid={uid}"
    return cluster.read_list(path, kube.Event, f"events of namespace {namespace}", fieldSelector=selector)


def _log(cluster: Cluster, namespace: str, pod: kube.Pod) -> Any:
    """Return the end of a pod's log, or the error if the user may not read it. Other errors count as no log."""
    container = next((container.name for container in pod.spec.containers or ()), "")
    try:
        return cluster.log(namespace, pod.metadata.name, container, logs.LINES, timestamps=True)
    except ForbiddenError:
        raise
    except UnreachableError:
        return ""


def _read_log(ahead: Ahead, unread: Unread) -> TimedLog | None:
    text: str | None = unread.tolerate(ahead.result, None)
    return None if text is None else timed(text)


def _where(namespace: str) -> str:
    return f" of namespace {namespace}" if namespace else " of all namespaces"
