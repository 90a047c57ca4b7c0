"""Keep a list of objects up to date with a watch: list once, then receive each change.

If the user may list but not watch, the list is read again every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Generic, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from distrain.apiserver.connection import JSON, Connection
from distrain.apiserver.parts import lines
from distrain.apiserver.responses import PageHead, Watched, WatchEvent, decoded, refusal
from distrain.errors import ForbiddenError, UnreachableError
from distrain.kube.decoders import decoder

# The API server ends a watch after SECONDS. The plugin then starts another watch from the same point.
SECONDS = 240
# Seconds to wait before the list is read again: after each watch, and after an error. A user who may not watch gets a
# new list at this interval.
PAUSE = 5.0
GONE = 410

Item = TypeVar("Item")


class Listed(Struct, Generic[Item], frozen=True):
    """A request for a list of objects of one kind. `server` is the API server; `what` names the list in messages."""

    server: str
    path: str
    item: type[Item]
    what: str
    query: Mapping[str, str]


class _Whole(PageHead):
    """A list that is read with a single request."""

    items: list[msgspec.Raw] | None = None


class Watch(Generic[Item]):
    """The objects of a list, keyed by uid.

    `changed` is set after each change, after the first list, and after an error.

    A thread keeps reading until `close` is called.
    """

    def __init__(self, connection: Connection, listed: Listed[Item], changed: threading.Event) -> None:
        self._connection, self._listed, self._changed = connection, listed, changed
        self._item = decoder(listed.item)
        self._watched = decoder(Watched)
        self._event = decoder(WatchEvent)
        self._objects: dict[str, Item] = {}
        self._error: UnreachableError | None = None
        self._silent_since: float | None = None
        self._begun, self._closed = threading.Event(), threading.Event()
        self.has_answered = False
        threading.Thread(target=self._run, daemon=True).start()

    def items(self) -> list[Item]:
        """Return the current objects.

        Wait for the first list and return its items; raise an error if the list could not be read.
        """
        self._begun.wait()
        if isinstance(self._error, ForbiddenError):
            raise self._error
        return list(self._objects.values())

    def silence(self) -> tuple[float, UnreachableError | None]:
        """Return the number of seconds since the API server stopped answering (0 if it answers), and the last error."""
        since = self._silent_since
        return (0.0, None) if since is None else (time.monotonic() - since, self._error)

    def close(self) -> None:
        """Stop sending requests to the API server. A request in progress is not cancelled."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow(self._list())
            except UnreachableError as error:
                self._error = error
                self._silent_since = self._silent_since or time.monotonic()
            self._tell()
            self._closed.wait(PAUSE)

    def _tell(self) -> None:
        self._begun.set()
        self._changed.set()

    def _list(self) -> str:
        """Read the whole list, and return its resource version, with which the watch begins."""
        listed = self._listed
        # Send the request without retries, because each retry would print a line. This thread repeats the request
        # later.
        answer = self._connection.ask(f"{listed.path}?{urlencode(listed.query)}", accept=JSON, retries=0)
        whole = decoded(answer, decoder(_Whole).decode, listed.what, listed.server)
        self._objects = {self._uid(raw): self._item.decode(raw) for raw in whole.items or ()}
        self._error, self._silent_since, self.has_answered = None, None, True
        self._tell()
        return whole.metadata.resource_version

    def _follow(self, version: str) -> None:
        """Receive changes until the resource version is too old for the server.

        If the user has no permission to watch, receive none.
        """
        listed = self._listed
        while version and not self._closed.is_set():
            query = {**listed.query, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(SECONDS)}
            path = f"{listed.path}?{urlencode({**query, 'resourceVersion': version})}"
            stream = self._connection.stream(path, SECONDS)
            if stream.answer.status in (403, 405, GONE):
                return
            if stream.answer.status != 200:
                raise refusal(stream.answer, listed.what, listed.server)
            before = version
            for line in lines(stream.parts):
                version = self._take(line)
                if not version:
                    return
            if version == before:
                # Without this pause, a watch that ends at once and without an event would be started again immediately.
                self._closed.wait(1)

    def _take(self, line: bytes) -> str:
        """Apply a change; return the new resource version, or an empty text if the whole list must be read again."""
        try:
            event = self._event.decode(line)
            metadata = self._watched.decode(event.object).metadata
            if event.type in ("ADDED", "MODIFIED"):
                self._objects = {**self._objects, metadata.uid: self._item.decode(event.object)}
            elif event.type == "DELETED":
                self._objects = {uid: each for uid, each in self._objects.items() if uid != metadata.uid}
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        if event.type == "ERROR":
            return ""
        if event.type != "BOOKMARK":
            self._changed.set()
        return metadata.resource_version

    def _uid(self, raw: msgspec.Raw) -> str:
        return self._watched.decode(raw).metadata.uid
