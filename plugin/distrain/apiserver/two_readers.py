"""Read a long list with two processes: each process reads, decodes and sums up every second page.

Reading from a TLS connection takes more than one second per gigabyte, and decoding takes as long. A single Python
process cannot read and decode at the same time.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Any, TypeVar

from distrain.apiserver.connection import Answer
from distrain.errors import DistrainError, UnreachableError

T = TypeVar("T")
Ask = Callable[[str, Callable[[Answer], None]], Answer]
NextToken = Callable[[Answer], "str | None"]


def shared(
    first: Answer, asks: tuple[Ask, Ask], next_token: NextToken, use: Callable[[Iterator[Answer]], T]
) -> tuple[T, T]:
    """Return the results of `use` for the odd pages, in this process, and for the even pages, in a child process.

    Each page begins with the token of the next page. The two processes read the pages in turn, so each process sends
    the tokens that it finds to the other process. The child process sends its requests with `asks[1]`, and no other
    code may use that connection. Raises the errors that occur in either process.
    """
    ours, theirs = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_work, args=(ours, theirs, asks[1], next_token, use), daemon=True)
    process.start()
    theirs.close()
    try:
        return use(_pages(ours, asks[0], next_token, first)), _received(ours)
    finally:
        process.kill()
        process.join()
        ours.close()


class _Turn:
    """Send the token of the next page to the other process as soon as the token is known."""

    def __init__(self, pipe: Pipe, next_token: NextToken) -> None:
        self._pipe, self._next_token = pipe, next_token
        self._has_passed = False
        self.following: str | None = None

    def pass_on(self, page: Answer) -> None:
        """Read the next page's token from this page or its beginning, and send it to the other process.

        If a page is read again after an error, its token has been sent already, so nothing happens.
        """
        if not self._has_passed:
            self.following = self._next_token(page)
            # If the other process has ended, the next message received from it gives the reason.
            with suppress(OSError):
                self._pipe.send(self.following)
            self._has_passed = True


def _pages(pipe: Pipe, ask: Ask, next_token: NextToken, first: Answer | None = None) -> Iterator[Answer]:
    """Yield every second page; a page is valid until the next page is yielded."""
    while first or (token := _received(pipe)):
        turn = _Turn(pipe, next_token)
        page = first or ask(token, turn.pass_on)
        turn.pass_on(page)
        yield page
        if turn.following is None:
            return
        first = None


def _received(pipe: Pipe) -> Any:
    """Receive an object from the other process; if the object is an exception, raise it."""
    try:
        found = pipe.recv()
    except (EOFError, OSError) as error:
        raise UnreachableError(
            "a process that this command had started ended unexpectedly; run the command again"
        ) from error
    if isinstance(found, DistrainError):
        raise found
    return found


def _work(parent: Pipe, pipe: Pipe, ask: Ask, next_token: NextToken, use: Callable[[Iterator[Answer]], object]) -> None:
    """Run the child process. The child process ignores Ctrl-C, because its parent process ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent.close()
    try:
        found = use(_pages(pipe, ask, next_token))
    except DistrainError as error:
        found = error
    with suppress(OSError):  # The parent has ended.
        pipe.send(found)
