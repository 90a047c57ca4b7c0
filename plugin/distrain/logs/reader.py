"""Read the log of one container with any number of requests, across restarts of the container.

The kubelet keeps the logs of the running container and of the previous container. Each read gets the lines from a
certain second on. The answer does not show whether the container has restarted since the last read. If a read contains
no line of the previous read, the container has restarted. In this case the old container's last lines are read from the
log of the previous container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from distrain.apiserver.cluster import Cluster
from distrain.apiserver.parts import blocks
from distrain.errors import NoLogError
from distrain.logs.seam import Overlap, Seam
from distrain.logs.stamps import written


class Place(Struct, frozen=True):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


class Wanted(Struct, frozen=True):
    """The part of a log that is wanted: by default, the log of the current container from its start.

    `born` is the second at which the current container has started, if there was a previous container. With `is_whole`
    the previous container's log is wanted as well; with `previous` only that log is wanted. Lines that are older than
    `from_second` are not wanted.
    """

    since_seconds: int | None = None
    tail: int | None = None
    previous: bool = False
    born: int | None = None
    is_whole: bool = False
    from_second: int | None = None

    @property
    def query(self) -> dict[str, str]:
        since = {} if self.since_seconds is None else {"sinceSeconds": str(self.since_seconds)}
        # At least one line is read, because its time shows where the next read has to start.
        tail = {} if self.tail is None else {"tailLines": str(max(1, self.tail))}
        begin = {} if self.from_second is None else {"sinceTime": written(self.from_second)}
        return {**since, **begin, **tail}

    @property
    def is_part(self) -> bool:
        return any(each is not None for each in (self.since_seconds, self.tail, self.from_second))


class Reader:
    """Yields the lines of a container's log in blocks. Each line has its time.

    `tell` receives a message if lines were lost.
    """

    def __init__(self, cluster: Cluster, place: Place, wanted: Wanted, tell: Callable[[str], None]) -> None:
        self.place = place
        self._cluster, self._wanted, self._tell = cluster, wanted, tell
        self._seam = Seam()
        # A log that is read from its beginning starts with the log of the previous container, if there was one.
        self._has_begun = wanted.is_whole
        # True if the first read leaves out the beginning of the log, as with --tail. The next read starts with a whole
        # second, so it may return some of the lines that were left out.
        self._is_cut = wanted.is_part

    @property
    def is_previous(self) -> bool:
        return self._wanted.previous

    def read(self, *, follows: bool = False, has_rest: bool = False) -> Iterator[list[bytes]]:
        """Yield the new lines. With `has_rest`, also yield a last line without a line break.

        With `follows`, wait for more lines until the container ends, or until it writes nothing for a while. Raises
        UnreachableError if the read breaks off. The next read continues, and no line is lost.
        """
        if follows and self._is_cut:
            yield from self.read()
        is_first = not self._has_begun
        query, overlap, of_ended = self._query(is_first=is_first), self._seam.overlap(), self._seam.overlap()
        found = blocks(self._parts(query, follows=follows), has_rest=has_rest)
        if not is_first and not self._wanted.previous:
            first = self._first_new(found, overlap)
            if not overlap.is_met:
                yield from self._ended(query, of_ended)
            yield from self._received(first)
            self._is_cut = False
        for block in found:
            yield from self._received(overlap.new(block))
        self._has_begun = True

    def _first_new(self, found: Iterator[list[bytes]], overlap: Overlap) -> list[bytes]:
        """Return the new lines in the first block of a read.

        If the first read skipped the older lines of the log, this read may return some of them, before the first known
        line. These older lines are left out.
        """
        earlier: list[bytes] = []
        for block in found:
            before, new = overlap.split(block)
            earlier += before
            if overlap.is_met and self._is_cut:
                self._seam.add(earlier)
                return new
            if overlap.is_empty or not self._is_cut:
                return earlier + new
        return earlier

    def _ended(self, query: dict[str, str], overlap: Overlap) -> Iterator[list[bytes]]:
        """Yield the rest of a container's log after a new container in the same pod has replaced the container."""
        try:
            found = blocks(self._parts({**query, "previous": "true"}), has_rest=True)
            yield from self._received(self._first_new(found, overlap))
            for block in found:
                yield from self._received(overlap.new(block))
        except NoLogError:
            pass
        if not overlap.is_empty and not overlap.is_met:
            self._tell(f"{self.place.pod}: lines may be missing here: kubelet has removed a part of the log")

    def _received(self, lines: list[bytes]) -> Iterator[list[bytes]]:
        # With --tail 0 the last line is not printed: it only shows where the next read has to start.
        is_hidden = self._wanted.tail == 0 and not self._has_begun
        if lines:
            self._has_begun = True
            self._seam.add(lines)
        if lines and not is_hidden:
            yield lines

    def _query(self, *, is_first: bool) -> dict[str, str]:
        if self._seam.since is not None:
            return {"sinceTime": written(self._seam.since)}
        if is_first or self._wanted.since_seconds is not None:
            return {key: text for key, text in self._wanted.query.items() if is_first or key == "sinceSeconds"}
        return {} if self._wanted.born is None else {"sinceTime": written(self._wanted.born)}

    def _parts(self, query: dict[str, str], *, follows: bool = False) -> Iterator[bytes]:
        place, more = self.place, {"follow": "true"} if follows else {}
        previous = {"previous": "true"} if self._wanted.previous else {}
        query = {"container": place.container, "timestamps": "true", **query, **previous, **more}
        return self._cluster.log_parts(place.namespace, place.pod, **query)
