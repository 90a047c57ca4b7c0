"""Test how two processes read the pages of a list."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from distrain.apiserver.connection import Answer
from distrain.apiserver.two_readers import shared
from distrain.errors import UnreachableError

PAGES = 6
FIRST = Answer(200, memoryview(b"0"))


def _ask(token: str, hear: Callable[[Answer], None]) -> Answer:
    return Answer(200, memoryview(token.encode()))


def _next(answer: Answer) -> str | None:
    number = int(bytes(answer.body)) + 1
    return str(number) if number < PAGES else None


def _bodies(pages: Iterator[Answer]) -> list[str]:
    return [f"{os.getpid()} {bytes(page.body).decode()}" for page in pages]


def test_each_process_reads_every_other_page() -> None:
    ours, theirs = shared(FIRST, (_ask, _ask), _next, _bodies)

    other = theirs[0].partition(" ")[0]
    assert ours == [f"{os.getpid()} {number}" for number in (0, 2, 4)]
    assert theirs == [f"{other} {number}" for number in (1, 3, 5)]
    assert other != str(os.getpid())


def test_page_that_breaks_off_passes_its_token_on_once() -> None:
    def twice(token: str, hear: Callable[[Answer], None]) -> Answer:
        hear(_ask(token, hear))
        hear(_ask(token, hear))
        return _ask(token, hear)

    ours, theirs = shared(FIRST, (twice, twice), _next, _bodies)

    assert [each.partition(" ")[2] for each in (*ours, *theirs)] == ["0", "2", "4", "1", "3", "5"]


def test_what_the_other_process_cannot_read_is_reported_in_its_words() -> None:
    def fail(token: str, hear: Callable[[Answer], None]) -> Answer:
        raise UnreachableError("the cluster is gone")

    with pytest.raises(UnreachableError, match="the cluster is gone"):
        shared(FIRST, (_ask, fail), _next, _bodies)


def test_killed_process_is_reported_and_not_waited_for() -> None:
    def killed(token: str, hear: Callable[[Answer], None]) -> Answer:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    with pytest.raises(UnreachableError, match="a process that this command had started ended unexpectedly"):
        shared(FIRST, (_ask, killed), _next, _bodies)


def test_process_ends_when_the_other_process_gives_up() -> None:
    def give_up(pages: Iterator[Answer]) -> list[str]:
        next(pages)
        assert _children()
        raise KeyboardInterrupt

    before = _children()
    with pytest.raises(KeyboardInterrupt):
        shared(FIRST, (_ask, _ask), _next, give_up)

    assert _children() == before


def _children() -> str:
    """Return the child processes of this process that have not been waited for."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
        return children.read()
