"""Follow the log of a run until the run has ended, across restarts of containers, other pods and other jobs."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from msgspec.structs import replace

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, UnreachableError
from distrain.logs.pods import Look, born_again, look, speakers, started, title
from distrain.logs.pool import Followed, Pool
from distrain.logs.rank0 import rank0
from distrain.logs.reader import Place, Reader, Wanted
from distrain.logs.stamps import second_of
from distrain.progress.start import main_container
from distrain.status.absence import Absence
from distrain.status.follow import Silence
from distrain.status.sources import Selection, Unread, Watches

# At least SOONEST seconds pass between two reads of the jobs and pods. A change of a job or pod triggers a read.
SOONEST = 1.0
# If the API server does not answer for MOST_SILENCE seconds, the command stops following the logs. Replacing an API
# server takes a few minutes.
MOST_SILENCE = 600.0
# If the worker with rank 0 writes nothing for SILENT seconds, rank 0 may have moved to another worker.
SILENT = 10.0


class Following:
    """Follows the logs of all pods of a run, or only the run's main log: the log of the launcher or of rank 0."""

    def __init__(
        self, cluster: Cluster, release: str, wanted: Wanted, *, is_all: bool, tell: Callable[[str], None]
    ) -> None:
        self._cluster, self._release, self._wanted = cluster, release, wanted
        self._is_all, self._tell = is_all, tell
        self._pool = Pool(tell)
        self._absence = Absence(cluster, release, tell)
        # All pods seen so far, by uid. The value is None for a pod whose log is not read.
        self._known: dict[str, Followed | None] = {}
        # The time stamp of the newest line (from the node's clock), and the time at which the plugin received this
        # line.
        self._newest: int | None = None
        self._heard = 0.0
        # One error for each pod whose log the user may not read, and the number of errors already printed.
        self._refused: list[UnreachableError] = []
        self._told = 0

    def lines(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield blocks of lines until the run has ended. Each block has the title of its pod.

        Raises GoneError if the run is deleted, and ForbiddenError if the user has no permission to read any of its
        logs.
        """
        selection = Selection(self._release)
        with (
            closing(self._pool),
            closing(Watches(self._cluster, self._cluster.target.namespace, selection)) as source,
        ):
            for found in self._looks(source):
                added = self._update(found)
                yield from self._found()
                if found.objects:
                    self._absence.end()
                elif not added and self._pool.is_idle:
                    self._absence.go_on(found.by_uid.values())
                if not added and self._pool.is_idle and found.has_ended:
                    return

    def _looks(self, source: Watches) -> Iterator[Look]:
        """Yield the state of the run again and again, even if the API server does not answer for some minutes."""
        silence = Silence(self._tell)
        self._cluster.hurry()
        while True:
            try:
                found = look(source, Unread(), self._cluster.target.helm_flags)
            except UnreachableError as error:
                silence.begin(error)
                if isinstance(error, ForbiddenError) or not source.has_answered or silence.seconds > MOST_SILENCE:
                    raise
            else:
                silence.end()
                yield found
                continue
            time.sleep(SOONEST)

    def _found(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the blocks that arrive until the state of the run is read again."""
        end = time.monotonic() + SOONEST
        while (left := end - time.monotonic()) > 0:
            try:
                followed, found = self._pool.found.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(found, UnreachableError):
                self._refused.append(found)
                continue
            self._newest, self._heard = second_of(found[-1]) or self._newest, time.monotonic()
            yield followed.title, found
        if self._pool.error:
            raise self._pool.error
        self._tell_refused()

    def _tell_refused(self) -> None:
        """If the user has no permission to read some pods' logs, print the names of these pods once.

        Raise the error if no pod is left to follow.
        """
        new = self._refused[self._told :]
        if not new:
            return
        if not self._is_all or len(self._refused) == self._pool.size:
            raise new[0]
        more = f" (and {len(new) - 1:,} more)" if len(new) > 1 else ""
        self._tell(f"{new[0].messages[0]}{more}; going on with the other pods")
        self._told = len(self._refused)

    def _update(self, found: Look) -> list[kube.Pod]:
        """Give the threads the current state of their pods. Add the new pods and return them."""
        for uid, followed in self._known.items():
            if followed:
                followed.pod = found.by_uid.get(uid)
        chosen = self._all(found) if self._is_all else self._speaker(found)
        wanted = [self._part(pod) for pod in chosen]
        if chosen and not self._known and not self._is_all:
            # Treat the other existing pods, such as pods of earlier attempts, as known, so that their logs are not
            # read.
            self._known = {pod.metadata.uid: None for pod in started(found.pods)}
        for pod, part in zip(chosen, wanted, strict=True):
            self._known[pod.metadata.uid] = followed = self._followed(pod, part)
            self._pool.add(followed)
        return chosen

    def _all(self, found: Look) -> list[kube.Pod]:
        return [pod for pod in started(found.pods) if pod.metadata.uid not in self._known]

    def _speaker(self, found: Look) -> list[kube.Pod]:
        """Return the pod that now has the run's main log (the launcher or rank 0), if it is another pod than before.

        Another pod takes over when the previous pod's log can no longer be read, or has been silent for a while. Rank 0
        may also move to another worker while all workers run. In this case the log of the previous pod gets no more
        lines.
        """
        is_over = all(each.failures for each in self._pool.followed)
        has_new = any(pod.metadata.uid not in self._known for pod in speakers(found))
        is_silent = found.workers_speak and time.monotonic() - self._heard > SILENT
        if not (is_over and has_new) and not is_silent:
            return []
        self._heard = time.monotonic()
        pod = rank0(self._cluster, found)
        return [pod] if pod and not self._known.get(pod.metadata.uid) else []

    def _part(self, pod: kube.Pod) -> Wanted:
        """Return which part of a pod's log to read.

        Read all of a new pod's log, but only the newest lines if a known worker became rank 0.
        """
        if not self._known:
            return replace(self._wanted, born=born_again(pod))
        is_new = pod.metadata.uid not in self._known
        return Wanted(is_whole=True) if is_new else Wanted(from_second=self._newest)

    def _followed(self, pod: kube.Pod, wanted: Wanted) -> Followed:
        place = Place(pod.metadata.namespace, pod.metadata.name, main_container(pod))
        return Followed(pod, Reader(self._cluster, place, wanted, self._tell), title(pod))
