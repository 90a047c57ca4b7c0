"""Pages that another process reads ahead."""

from __future__ import annotations

import os

import pytest

from distrain.connection import Answer
from distrain.errors import UnreachableError
from distrain.reader import Reader

PAGES = 6


def _ask(token: str) -> Answer:
    return Answer(200, memoryview(token.encode() * 1000))


def _next(answer: Answer) -> str | None:
    number = int(bytes(answer.body[:1])) + 1
    return str(number) if number < PAGES else None


def _wait_for_its_end() -> None:
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def test_pages_come_in_order_and_the_last_one_from_a_process_that_has_ended() -> None:
    reader = Reader(_ask, _next, "0")
    try:
        first = [reader.page().body[:1].tobytes() for _ in range(PAGES - 1)]
        _wait_for_its_end()
        last = reader.page()
        assert b"".join([*first, bytes(last.body[:1])]) == b"012345"
        assert len(last.body) == 1000
    finally:
        reader.close()


def test_page_is_good_until_the_one_after_the_next_is_taken() -> None:
    reader = Reader(_ask, _next, "0")
    try:
        page = reader.page()
        reader.page()
        assert bytes(page.body) == b"0" * 1000
    finally:
        reader.close()


def test_failure_of_the_process_is_told_in_its_words() -> None:
    def fail(token: str) -> Answer:
        raise UnreachableError("the cluster is gone")

    reader = Reader(fail, _next, "0")
    try:
        with pytest.raises(UnreachableError, match="the cluster is gone"):
            reader.page()
    finally:
        reader.close()
