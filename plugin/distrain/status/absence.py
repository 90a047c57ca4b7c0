"""Say why a run has no job: the job is being replaced, someone deleted it, or it never existed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from urllib.parse import urlencode

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import METADATA_LIST, Cluster
from distrain.errors import GoneError, UnreachableError
from distrain.kube.objects import Kube
from distrain.kube.pod_status import ENDED
from distrain.record.read import Record
from distrain.status import recorded
from distrain.status.sources import SILENCE_SECONDS, Selection
from distrain.workload.documents import HOOK

# Helm creates the new job some seconds after the old job has been deleted. So a watched run may have no job for
# SECONDS, not counting the time in which the pod of a hook runs. The API server may be unreachable for the same time.
SECONDS = SILENCE_SECONDS
# Helm runs these hooks while it replaces a job. activeDeadlineSeconds limits how long their pods run.
REPLACING = ("pre-upgrade", "pre-rollback")


class Found(Kube):
    """A list of objects of any kind. A list of null means an empty list."""

    items: list[kube.Named] | None = None


class Absence:
    """Decides, each time the run is read, whether a run without a job waits for a new job or was removed.

    `tell` receives a message when the job is gone.
    """

    def __init__(self, cluster: Cluster, release: str, tell: Callable[[str], None]) -> None:
        self._cluster, self._release, self._tell = cluster, release, tell
        self._since: float | None = None

    @property
    def lasts(self) -> bool:
        return self._since is not None

    def end(self) -> None:
        """Record that the run has a job again."""
        self._since = None

    def go_on(self, pods: Iterable[kube.Pod]) -> None:
        """Record that the run has no job; raise GoneError if no new job will replace the last one."""
        now, is_replaced = time.monotonic(), any(map(_replaces, pods))
        if not is_replaced and self._is_removed():
            raise GoneError(f"{self._release}: the run is gone: someone removed it")
        if self._since is None:
            self._tell(f"{self._release}: its job is gone; waiting for the job that replaces it")
        if self._since is None or is_replaced:
            self._since = now
        if now - self._since > SECONDS:
            words = f"someone removed its job, and no other job has replaced it in {SECONDS:g} s"
            raise GoneError(f"{self._release}: the run is gone: {words}")

    def _is_removed(self) -> bool:
        """Tell whether the release has no ConfigMaps any more.

        An upgrade leaves them, but `helm uninstall` deletes them.
        """
        found = _config_maps(self._cluster, self._release)
        return found is not None and all(HOOK in (each.metadata.annotations or {}) for each in found)


def is_being_replaced(cluster: Cluster, release: str) -> bool:
    """Tell whether Helm is about to create another job: a hook's pod is running, or the release's status is pending."""
    namespace, pods = cluster.target.namespace, list[kube.Pod]()
    with contextlib.suppress(UnreachableError):
        pods = Selection(release).own(cluster.chart_pods(namespace))
    pending = "status in (pending-upgrade,pending-rollback)"
    secrets = paths.of_kind("v1", "Secret", namespace)
    return any(map(_replaces, pods)) or bool(_list(cluster, secrets, f"owner=helm,name={release},{pending}"))


def missing_namespace(cluster: Cluster) -> str:
    """If the namespace does not exist, say so.

    Return an empty text if the namespace exists, or if the user has no permission to read it.
    """
    name = cluster.target.namespace
    try:
        is_there = cluster.has(paths.namespace(name), f"namespace {name}")
    except UnreachableError:
        return ""
    step = "correct --namespace, or the namespace of the kubeconfig's context"
    return "" if is_there else f'--namespace: there is no namespace "{name}"; {step}'


def absence(cluster: Cluster, release: str, find_record: Callable[[], Record | None] = lambda: None) -> str:
    """Return why there is no run of this name, and what the user can do.

    `find_record` reads the run's record.
    """
    namespace, flags = cluster.target.namespace, cluster.target.helm_flags
    if is_being_replaced(cluster, release):
        gone = f"{release}: its job is gone, and an upgrade or a rollback of Helm is about to create another one"
        return f"{gone}; try again in some seconds, or see `helm history {release} {flags}`"
    if not _list(cluster, paths.of_kind("v1", "Secret", namespace), f"owner=helm,name={release}"):
        if missing := missing_namespace(cluster):
            return missing
        unknown = f"{release}: there is no run of this name in namespace {namespace}"
        return f"{unknown}; `helm distrain status {flags}` lists the existing runs"
    if _config_maps(cluster, release):
        again = f"`helm distrain upgrade {release} --reuse-values {flags}` creates the job again"
        if (record := find_record()) and (ended := recorded.end_of(record, time.time())):
            rest = f"`helm uninstall {release} {flags}` removes the rest"
            then = rest if recorded.has_finished(record) else again
            return f"{release}: according to its record, the run {ended}; its job was removed since; {then}"
        removed = f"{release}: the release has no job any more: somebody removed it, or job.ttlSecondsAfterFinished did"
        return f"{removed}; {again}"
    words = f"{release}: is a Helm release, but has no job of distrain's chart"
    return f"{words}; `helm status {release} {flags}` describes the release"


def _replaces(pod: kube.Pod) -> bool:
    """Tell whether the pod is still running and belongs to a Helm hook that runs while Helm replaces a job."""
    hooks = (pod.metadata.annotations or {}).get(HOOK, "")
    return pod.status.phase not in ENDED and any(each in hooks for each in REPLACING)


def _config_maps(cluster: Cluster, release: str) -> list[kube.Named] | None:
    """Return the metadata of the release's ConfigMaps, or None if the user has no permission to list them."""
    selection, path = Selection(release), paths.of_kind("v1", "ConfigMap", cluster.target.namespace)
    found = _list(cluster, path, selection.selector("ConfigMap"))
    return None if found is None else selection.own(found)


def _list(cluster: Cluster, path: str, selector: str) -> list[kube.Named] | None:
    """Return the metadata of the objects with these labels, or None if the user has no permission to list them."""
    query = f"{path}?{urlencode({'labelSelector': selector})}"
    try:
        return cluster.read_one(query, Found, "objects", METADATA_LIST).items or []
    except UnreachableError:
        return None
