"""Test `status --watch`, as a user runs it against a fake API."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from distrain import console
from distrain.status import follow
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import (
    DONE,
    MPI,
    UP,
    interrupt,
    pod,
    serve,
    unplaced,
)


def test_watch_tells_each_change_in_a_pipe_until_the_end(
    api: FakeApi, status: Run, watched: Callable[[Object, str], None]
) -> None:
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), unplaced("worker", 1)])
    looks = iter([lambda: watched(pod("worker", 1), "MODIFIED"), lambda: watched(DONE, "MODIFIED")])
    printed = console.answer

    def answer(text: str) -> None:
        printed(text)
        next(looks, lambda: None)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "answer", answer)
        shown = status("run1", "--watch")

    assert shown.code == 0
    assert [line.partition(",")[0] for line in shown.out.splitlines()] == [
        "run1: Pending",
        "run1: Running",
        "run1: Succeeded",
    ]


def test_ctrl_c_ends_a_watch_with_130_and_without_words(
    api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(api, MPI, pods=UP)
    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=interrupt, monotonic=time.monotonic))

    shown = status("run1", "--watch")

    assert (shown.code, shown.err) == (130, "")
