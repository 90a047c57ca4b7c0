"""List objects page by page.

The pods of a large cluster take a gigabyte. No page is kept; the caller sums up the items as they come.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from distrain.apiserver.ahead import Ahead
from distrain.apiserver.answers import decoded, refusal
from distrain.apiserver.connection import JSON, Answer, Connection, Patience
from distrain.apiserver.responses import Page, PageMetadata
from distrain.errors import UnreachableError
from distrain.kube.encoding import BEGINNING, MAGIC, PROTOBUF
from distrain.kube.pods import CountedPod

PAGE_SIZE = 500
# A list is kept for minutes by its server; one that expires this often is read too slowly.
TRIES = 3
# A list ends its metadata before its items begin.
ITEMS = b',"items":['

Item = TypeVar("Item")
T = TypeVar("T")


class Summable(Protocol):
    """What two processes have made of a list's halves can be added."""

    def __add__(self, other: Any, /) -> Any: ...


Sum = TypeVar("Sum", bound=Summable)


class Head(msgspec.Struct):
    """What stands before the items of a list."""

    metadata: PageMetadata = msgspec.field(default_factory=PageMetadata)


HEAD = msgspec.json.Decoder(Head)


class ExpiredError(UnreachableError):
    """The server no longer has the state of which it gave the first pages of a list."""


class Listing(Generic[Item]):
    """The list at a path of an API server; `what` names it in a message.

    The state that the first page tells of is that of all; raises ExpiredError when the server has it no more.
    """

    # What pages after the first may be, best first.
    _accept_more = JSON

    def __init__(self, server: str, path: str, item: type[Item], what: str, query: Mapping[str, str]) -> None:
        self._server, self._path, self._what, self._query = server, path, what, query
        self._decoder = msgspec.json.Decoder(Page[item])  # type: ignore[valid-type]
        self._patience = Patience()

    def items(self, connection: Connection) -> Iterator[Item]:
        """Yield the items, while the next page is read."""
        return self._following(connection, self._ask(connection))

    def used(self, connections: tuple[Connection, Connection], use: Callable[[Iterator[Item]], Sum]) -> Sum:
        """Return what `use` makes of all items, none of which it may keep: a long list's in two processes."""

        def use_pages(pages: Iterator[Answer]) -> Sum:
            return use(item for page in pages for item in self._items(page))

        one, other = (partial(self._ask, connection) for connection in connections)
        first = one()
        if not self._next_token(first) or not _has_processors():
            return use(self._following(connections[0], first))
        # Imports take 75 ms, and most clusters are small. The second process finds here what is imported now.
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
                yield from self._items(_kept(answer))
                answer = following.result()
            yield from self._items(_kept(answer))

    def _ask(
        self, connection: Connection, token: str | None = None, hear: Callable[[Answer], None] | None = None
    ) -> Answer:
        paging = {"limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
        path = f"{self._path}?{urlencode({**self._query, **paging})}"
        accept = self._accept_more if token else JSON
        answer = connection.ask(path, patience=self._patience, accept=accept, hear=hear)
        if token and answer.status == 410:
            raise ExpiredError(f"{self._what}: the list expired while it was read; try again")
        return answer

    def _items(self, answer: Answer) -> Iterable[Item]:
        return self._decoded(answer, self._decoder.decode).items or ()

    def _next_token(self, answer: Answer) -> str | None:
        """Return the token of the next page, which stands in a list's head: the whole of it is yet to be decoded."""
        if answer.status != 200:
            raise refusal(answer, self._what, self._server)
        return self._decoded(answer, _next_token)

    def _decoded(self, answer: Answer, decode: Callable[[memoryview], T]) -> T:
        return decoded(answer, decode, self._what, self._server)


class PodListing(Listing[CountedPod]):
    """The list of pods. A long one comes in protobuf after its first page, if the server speaks it."""

    _accept_more = f"{PROTOBUF},{JSON}"

    def _items(self, answer: Answer) -> Iterable[CountedPod]:
        return self._decoded(answer, _protobuf().pods) if _is_protobuf(answer) else super()._items(answer)

    def _next_token(self, answer: Answer) -> str | None:
        return self._decoded(answer, _protobuf().next_token) if _is_protobuf(answer) else super()._next_token(answer)


def _next_token(page: memoryview) -> str | None:
    head, items, _ = bytes(page[:BEGINNING]).partition(ITEMS)
    return HEAD.decode(head + b"}" if items else page).metadata.next or None


def _is_protobuf(answer: Answer) -> bool:
    return answer.status == 200 and answer.body[: len(MAGIC)] == MAGIC


def _protobuf() -> ModuleType:
    from distrain.kube import pods_protobuf

    return pods_protobuf


def _kept(answer: Answer) -> Answer:
    """Copy a page: parts of its items stay text, and may be kept longer than the connection keeps it."""
    return replace(answer, body=memoryview(bytes(answer.body)))


def again(read: Callable[[], T]) -> T:
    """Read, from the start where the list expired in the middle."""
    for _ in range(TRIES - 1):
        try:
            return read()
        except ExpiredError:
            continue
    return read()


def _has_processors() -> bool:
    """Tell whether there is a second processor; elsewhere than on Linux a process cannot always be forked safely."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for cycles, of which decoded JSON has none, after every few hundred objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
