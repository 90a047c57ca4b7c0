"""List objects page by page.

All pods of a large cluster together would take a gigabyte of memory. So the caller processes each item as soon as it
arrives, and no page is kept in memory.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from distrain.apiserver.connection import JSON, Answer, Connection
from distrain.apiserver.responses import Page, PageHead, decoded, refusal
from distrain.errors import UnreachableError
from distrain.kube.decoders import decoder
from distrain.pods.counted_pod import BEGINNING, MAGIC, PROTOBUF, CountedPod

PAGE_SIZE = 500
# The API server keeps the state of a list only for a few minutes. If that state expires TRIES times, the plugin is too
# slow to read the list and gives up.
TRIES = 3
# In a list's JSON, the metadata comes before the items.
ITEMS = b',"items":['
HEAD = msgspec.json.Decoder(PageHead)

Item = TypeVar("Item")
T = TypeVar("T")


class Summable(Protocol):
    """A result that supports `+`.

    Two processes compute such results, each for one half of a list, and then the two results are added.
    """

    def __add__(self, other: Any, /) -> Any: ...


Sum = TypeVar("Sum", bound=Summable)


class ExpiredError(UnreachableError):
    """A list cannot be read to its end: the API server has dropped the state of its first pages."""


class Listing(Generic[Item]):
    """The list at a path of an API server; `what` names the list in messages.

    All pages show the state that the cluster had when the first page was read. Raises ExpiredError if the server no
    longer has this state.
    """

    # The Accept header of the requests for all pages after the first. It names the preferred content type first.
    _accept_more = JSON

    def __init__(self, server: str, path: str, item: type[Item], what: str, query: Mapping[str, str]) -> None:
        self._server, self._path, self._what, self._query = server, path, what, query
        self._decoder = decoder(Page[item])  # type: ignore[valid-type]

    def items(self, connection: Connection) -> Iterator[Item]:
        """Yield the items, while the next page is being read."""
        return self._following(connection, self._ask(connection))

    def used(self, connections: tuple[Connection, Connection], use: Callable[[Iterator[Item]], Sum]) -> Sum:
        """Return the result of `use` for all items.

        If the list is long, two processes share the work. `use` must not keep any item.
        """

        def use_pages(pages: Iterator[Answer]) -> Sum:
            return use(item for page in pages for item in self._items(page))

        one, other = (partial(self._ask, connection) for connection in connections)
        first = one()
        if not self._next_token(first) or not _has_processors():
            return use(self._following(connections[0], first))
        # Import these modules only here: importing them takes 75 ms, and most clusters are too small to need them.
        # Import them before the fork, so that the child process inherits them.
        _protobuf()
        from distrain.apiserver.two_readers import shared

        with _no_collection():
            ours, theirs = shared(first, (one, other), self._next_token, use_pages)
        total: Sum = ours + theirs
        return total

    def _following(self, connection: Connection, answer: Answer) -> Iterator[Item]:
        with _no_collection():
            while token := self._next_token(answer):
                following = Ahead(self._ask, connection, token)
                yield from self._items(answer)
                answer = following.result()
            yield from self._items(answer)

    def _ask(
        self, connection: Connection, token: str | None = None, hear: Callable[[Answer], None] | None = None
    ) -> Answer:
        paging = {"limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
        path = f"{self._path}?{urlencode({**self._query, **paging})}"
        accept = self._accept_more if token else JSON
        answer = connection.ask(path, accept=accept, hear=hear)
        if token and answer.status == 410:
            raise ExpiredError(f"{self._what}: the API server's list expired while distrain read it; try again")
        return answer

    def _items(self, answer: Answer) -> Iterable[Item]:
        return self._decoded(answer, self._decoder.decode).items or ()

    def _next_token(self, answer: Answer) -> str | None:
        """Return the token of the next page. The token is in the list's header, before the items."""
        if answer.status != 200:
            raise refusal(answer, self._what, self._server)
        return self._decoded(answer, _next_token)

    def _decoded(self, answer: Answer, decode: Callable[[memoryview], T]) -> T:
        return decoded(answer, decode, self._what, self._server)


class PodListing(Listing[CountedPod]):
    """The list of pods. The first page is JSON, and the other pages are protobuf if the server supports this."""

    _accept_more = f"{PROTOBUF},{JSON}"

    def _items(self, answer: Answer) -> Iterable[CountedPod]:
        return self._decoded(answer, _protobuf().pods) if _is_protobuf(answer) else super()._items(answer)

    def _next_token(self, answer: Answer) -> str | None:
        return self._decoded(answer, _protobuf().next_token) if _is_protobuf(answer) else super()._next_token(answer)


class Ahead(threading.Thread):
    """A thread that runs one function call."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        super().__init__(daemon=True)
        self._call: Callable[[], Any] = partial(call, *arguments)
        self._result: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Return the call's result, or raise its exception."""
        self.join()
        if self._error:
            raise self._error
        return self._result


def _next_token(page: memoryview) -> str | None:
    head, items, _ = bytes(page[:BEGINNING]).partition(ITEMS)
    return HEAD.decode(head + b"}" if items else page).metadata.next or None


def _is_protobuf(answer: Answer) -> bool:
    return answer.status == 200 and answer.body[: len(MAGIC)] == MAGIC


def _protobuf() -> ModuleType:
    from distrain.pods import pods_protobuf

    return pods_protobuf


def again(read: Callable[[], T]) -> T:
    """Call `read`; if the list expired before its end, call `read` again."""
    for _ in range(TRIES - 1):
        try:
            return read()
        except ExpiredError:
            continue
    return read()


def _has_processors() -> bool:
    """Tell whether a second process can help: there are two processors, and forking is safe (Linux)."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause Python's search for reference cycles, because decoded objects have no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
