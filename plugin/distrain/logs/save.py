"""Save what describes a run into one folder, for a bug report: objects, events and logs, without secrets."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, field

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import METADATA_LIST, Cluster
from distrain.apiserver.pages import again
from distrain.errors import ForbiddenError, NoLogError, NotFoundError, UnreachableError
from distrain.kube.objects import Kube
from distrain.kube.resource import plural
from distrain.logs.folder import Folder
from distrain.logs.once import readings
from distrain.logs.pods import Look
from distrain.logs.reader import Place, Reader, Wanted
from distrain.progress.start import statuses
from distrain.status.holds import COSCHEDULING, VOLCANO
from distrain.status.sources import Selection
from distrain.without_secrets import cleaned, cleaned_line
from distrain.workload.live_job import name_of_job
from distrain.workload.manifest import ROLES
from distrain.workload.wording import counted

Object = dict[str, Any]
# What follows the job's name in a pod's name. It is a role, mostly with a number, as in -worker-3, or a hook with a
# hash, as in -preflight-1a2b3c4d. A random ending may follow, as in -launcher-x7k2p.
OF_ROLE = rf"-(?:{'|'.join(ROLES)})(?:-\d+)?"
OF_HOOK = r"-(?:preflight|replace|test|test-api|api)-[0-9a-f]{8}"
OF_POD = re.compile(rf"(?:{OF_ROLE}|{OF_HOOK}(?:{OF_ROLE})?)(?:-[a-z0-9]{{5}})?")


class Names(Kube):
    """A list of objects, of which only the names are read."""

    items: list[kube.Named] | None = None


class Saved(Struct):
    """What was saved (in words), and what could not be read."""

    found: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


class Saving:
    """Saves a run into a folder.

    If the user has no permission to read a part of the run, note this, and save the rest.
    """

    def __init__(self, cluster: Cluster, release: str, look: Look, folder: Folder) -> None:
        self._cluster, self._look, self._folder = cluster, look, folder
        self._namespace = cluster.target.namespace
        self._selection = Selection(release)
        self._saved = Saved()

    def save(self) -> Saved:
        # The objects come first, because they show which values are secret; a log may repeat such values.
        for api_version, kind in dict.fromkeys((each.api_version, each.kind) for each, _ in self._look.objects):
            self._tolerate(partial(self._objects, api_version, kind))
        self._tolerate(partial(self._objects, "v1", "Pod"))
        self._tolerate(self._pod_group)
        self._tolerate(self._config_maps)
        self._tolerate(self._events)
        self._logs()
        if self._saved.unread:
            self._folder.write(self._saved.unread, "not-read.txt")
        return self._saved

    def _tolerate(self, save: Callable[[], None]) -> None:
        try:
            save()
        except (ForbiddenError, NotFoundError) as error:
            self._saved.unread += error.messages

    def _objects(self, api_version: str, kind: str) -> None:
        path, what = paths.of_kind(api_version, kind, self._namespace), f"{plural(kind)} of namespace {self._namespace}"
        # The pods of hooks may have Argo CD's value of the label app.kubernetes.io/instance.
        listed = self._cluster.each(path, Object, what, labelSelector=Selection().selector(kind))
        found = (each for each in listed if self._selection.includes(each["metadata"].get("labels")))
        first = next(found, None)
        head = {"apiVersion": api_version, "kind": kind}
        objects = (cleaned({**head, **each}) for each in _chained(first, found))
        number = self._folder.write_list(objects, f"{plural(kind)}.json")
        self._saved.found.append(counted(number, kind))

    def _pod_group(self) -> None:
        """Save the PodGroup that a gang scheduler has for the job.

        The PodGroup has the job's name, but not the job's labels.
        """
        name = name_of_job(self._look.objects[0][0])
        for api_version in (VOLCANO, COSCHEDULING):
            # If the cluster has no such kind, RBAC may forbid the request before the API server says so.
            if "PodGroup" not in self._cluster.kinds(api_version):
                continue
            path = paths.of_kind(api_version, "PodGroup", self._namespace, name)
            with contextlib.suppress(NotFoundError):
                found = self._cluster.read_one(path, Object, f"PodGroup {name}")
                self._folder.write_list([cleaned(found)], "podgroups.json")
                self._saved.found.append(f"PodGroup {name}")
                return

    def _config_maps(self) -> None:
        query = urlencode({"labelSelector": self._selection.selector("ConfigMap")})
        path = f"{paths.of_kind('v1', 'ConfigMap', self._namespace)}?{query}"
        found = self._cluster.read_one(path, Names, f"configmaps of namespace {self._namespace}", METADATA_LIST)
        listed = (each.metadata for each in found.items or ())
        names = sorted(each.name for each in listed if self._selection.includes(each.labels))
        self._folder.write(names, "configmaps.txt")
        self._saved.found.append(f"the names of {counted(len(names), 'ConfigMap')}")

    def _events(self) -> None:
        path, what = paths.of_kind("v1", "Event", self._namespace), f"events of namespace {self._namespace}"
        events = again(lambda: [each for each in self._cluster.each(path, Object, what) if self._is_own(each)])
        events.sort(key=_time)
        number = self._folder.write_list(map(cleaned, events), "events.json")
        self._saved.found.append(counted(number, "event"))

    def _is_own(self, event: Object) -> bool:
        """Tell whether an event is about the run's objects, or about pods of its job that were deleted."""
        about = event.get("involvedObject") or {}
        # Another run may be named run1-2, so the beginning of a name does not suffice.
        name, job = str(about.get("name", "")), name_of_job(self._look.objects[0][0])
        is_gone = name.startswith(job) and OF_POD.fullmatch(name, len(job)) is not None
        uids = {job.metadata.uid for _, job in self._look.objects} | self._look.by_uid.keys()
        return is_gone or about.get("uid") in uids

    def _logs(self) -> None:
        number, unread = 0, list[UnreachableError]()
        for reader, blocks in readings(list(self._readers())):
            try:
                number += self._log(reader, blocks)
            except UnreachableError as error:
                unread += [] if isinstance(error, NoLogError | NotFoundError) else [error]
        self._saved.found.append(counted(number, "log"))
        if unread:
            more = f" (and {len(unread) - 1:,} more)" if len(unread) > 1 else ""
            self._saved.unread.append(f"{unread[0].messages[0]}{more}")

    def _log(self, reader: Reader, blocks: Iterator[list[bytes] | UnreachableError]) -> int:
        """Write a log with the time of each line. Return the number of files written, which is 1.

        If the first read fails, raise its error.
        """
        first = next(blocks, None)
        if isinstance(first, UnreachableError):
            raise first
        name = f"{reader.place.pod}.{reader.place.container}{'.previous' if reader.is_previous else ''}.log"
        with self._folder.file("logs", name) as file:
            for block in _chained(first, blocks):
                if isinstance(block, UnreachableError):
                    self._saved.unread += block.messages
                else:
                    file.writelines(cleaned_line(line) + b"\n" for line in block)
        return 1

    def _readers(self) -> Iterator[Reader]:
        for pod in self._look.by_uid.values():
            for status in statuses(pod):
                place = Place(self._namespace, pod.metadata.name, status.name)
                for is_previous in (True, False) if status.restart_count else (False,):
                    yield Reader(self._cluster, place, Wanted(previous=is_previous), self._saved.unread.append)


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    if first is not None:
        yield first
        yield from rest


def _time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")
