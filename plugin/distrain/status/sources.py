"""Read the jobs and pods with certain labels, either once or continuously by watches.

There is one list, or one watch, for each kind of object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.pages import Ahead
from distrain.apiserver.watch import Watch
from distrain.errors import ForbiddenError, NotFoundError
from distrain.kube.resource import Resource, plural
from distrain.workload.chart_objects import instance_of
from distrain.workload.documents import HOOK
from distrain.workload.kinds import GROUPS, KUBEFLOW
from distrain.workload.live_job import LiveObject
from distrain.workload.manifest import CHART, INSTANCE_LABEL, NAME_LABEL
from distrain.workload.wording import listed

# While a run is watched, the API server may be unreachable for SILENCE_SECONDS, for example while it restarts.
SILENCE_SECONDS = 60.0

T = TypeVar("T")
Each = TypeVar("Each", kube.Pod, kube.Named)
Versions = Mapping[str, str]


class Unread(list[str]):
    """Has one line for each thing that the user has no permission to read.

    `rights` has the missing right, a verb and a resource, of each line for which it is known.
    """

    def __init__(self, known: Unread | None = None) -> None:
        super().__init__(known or ())
        self.rights: dict[str, tuple[str, str]] = dict(known.rights) if known else {}

    def lines(self, helm_flags: str) -> list[str]:
        """Return the lines. If several of them are about missing rights, one line names all these rights instead."""
        if len(self.rights) < 2:
            return [*self]
        by_verb: dict[str, list[str]] = {}
        for verb, resource in sorted(set(self.rights.values())):
            by_verb.setdefault(verb, []).append(resource)
        missing = listed([f"`{verb}` {listed(resources)}" for verb, resources in by_verb.items()])
        step = f"`helm distrain doctor {helm_flags}` prints the roles to ask for"
        return [f"you have no right to {missing}; {step}", *(each for each in self if each not in self.rights)]

    def tolerate(self, read: Callable[[], T], otherwise: T) -> T:
        """Call `read` and return its result.

        Return `otherwise` if the user has no permission to read the objects, or if the cluster has no such kind.
        """
        try:
            return read()
        except ForbiddenError as error:
            self.extend(each for each in error.messages if each not in self)
            if error.right:
                self.rights |= dict.fromkeys(error.messages, error.right)
        except NotFoundError:
            pass
        return otherwise


class Source(Protocol):
    """Where the jobs and the pods are read from."""

    def jobs(self, unread: Unread) -> list[LiveObject]: ...

    def pods(self, unread: Unread) -> list[kube.Pod]: ...


class Selection(NamedTuple):
    """Selects the objects of one release, or those objects of all releases that also have the labels in `more`."""

    release: str | None = None
    more: str | None = None

    def selector(self, kind: str) -> str:
        """Return a label selector for the objects of a kind. It also selects other releases' objects, except pods.

        The API server cannot select a release's objects: Argo CD may have changed the label
        app.kubernetes.io/instance, and objects of earlier versions of the chart have no other label with the release.
        """
        instance = f"{INSTANCE_LABEL}={self.release}" if self.release and kind == "Pod" else ""
        return ",".join(filter(None, (f"{NAME_LABEL}={CHART}", instance, self.more)))

    def includes(self, labels: Mapping[str, str] | None) -> bool:
        """Tell from the labels of an object that was selected with `selector` whether it is of the release."""
        return not self.release or instance_of(labels) == self.release

    def own(self, found: Iterable[Each]) -> list[Each]:
        """Return the objects of the release among objects that were selected with `selector`."""
        return [each for each in found if self.includes(each.metadata.labels)]


class Lists:
    """Reads each list once, and all lists at the same time."""

    def __init__(self, cluster: Cluster, namespace: str, selection: Selection) -> None:
        def read(kind: str, version: str, item: type[Any]) -> list[Any]:
            path, what = paths.of_kind(version, kind, namespace), _what(kind, namespace)
            return cluster.read_list(path, item, what, labelSelector=selection.selector(kind))

        self._pods = Ahead(read, "Pod", "v1", kube.Pod)
        self._versions, self._selection = _versions(cluster), selection
        self._jobs = {kind: Ahead(read, kind, version, kube.Workload) for kind, version in self._versions.items()}

    def jobs(self, unread: Unread) -> list[LiveObject]:
        none: list[kube.Workload] = []
        found = {kind: unread.tolerate(ahead.result, none) for kind, ahead in self._jobs.items()}
        return _jobs(found, self._versions, self._selection)

    def pods(self, unread: Unread) -> list[kube.Pod]:
        none: list[kube.Pod] = []
        return self._selection.own(unread.tolerate(self._pods.result, none))


class Watches:
    """Keeps each list up to date until `close` is called; `changed` is set after each change."""

    def __init__(self, cluster: Cluster, namespace: str, selection: Selection) -> None:
        self.changed = threading.Event()

        def watch(kind: str, version: str, item: type[T]) -> Watch[T]:
            path, what = paths.of_kind(version, kind, namespace), _what(kind, namespace)
            return cluster.watch(path, item, what, self.changed, labelSelector=selection.selector(kind))

        self._pods = watch("Pod", "v1", kube.Pod)
        self._versions, self._selection = _versions(cluster), selection
        self._jobs = {kind: watch(kind, version, kube.Workload) for kind, version in self._versions.items()}

    def jobs(self, unread: Unread) -> list[LiveObject]:
        none: list[kube.Workload] = []
        found = {kind: unread.tolerate(watch.items, none) for kind, watch in self._jobs.items()}
        self._refuse_silence()
        return _jobs(found, self._versions, self._selection)

    def pods(self, unread: Unread) -> list[kube.Pod]:
        none: list[kube.Pod] = []
        return self._selection.own(unread.tolerate(self._pods.items, none))

    @property
    def has_answered(self) -> bool:
        """Tell whether the API server has ever answered."""
        return any(watch.has_answered for watch in self._jobs.values())

    def close(self) -> None:
        for watch in self._all:
            watch.close()

    @property
    def _all(self) -> list[Watch[Any]]:
        return [self._pods, *self._jobs.values()]

    def _refuse_silence(self) -> None:
        """If the API server has not answered for SILENCE_SECONDS, or has never answered, raise the error."""
        for watch in self._all:
            seconds, error = watch.silence()
            is_silent = error and not isinstance(error, ForbiddenError | NotFoundError)
            if error and is_silent and (seconds > SILENCE_SECONDS or not watch.has_answered):
                raise error


def _versions(cluster: Cluster) -> Versions:
    """Return the kinds of jobs that the cluster serves, each with one version. All versions list the same objects."""
    apis = [api.rsplit("/", 1) for group in GROUPS for api in cluster.served(group) if api.count("/") == 2]
    return {"Job": "batch/v1", **{kind: version for version, kind in reversed(apis) if kind in KUBEFLOW}}


def _jobs(found: Mapping[str, list[kube.Workload]], versions: Versions, selection: Selection) -> list[LiveObject]:
    jobs = [(Resource(versions[kind], kind, job.metadata.name), job) for kind, each in found.items() for job in each]
    return [job for job in jobs if _is_run(job[1].metadata) and selection.includes(job[1].metadata.labels)]


def _is_run(metadata: kube.Metadata) -> bool:
    """Tell whether the object is the job of a run: not a hook's job, and not created by an operator."""
    return HOOK not in (metadata.annotations or {}) and not metadata.owner_references


def _what(kind: str, namespace: str) -> str:
    return f"{plural(kind)} of {f'namespace {namespace}' if namespace else 'all namespaces'}"
