"""Provide fixtures for the tests of checkpoints: a failing disk, and faster heartbeats in HEAD."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.checkpoint import head as heads
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint import writer
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.checkpoint.writer import Writer
from tests.trainer.fixtures.disk import Disk
from tests.trainer.fixtures.ranks import in_threads

__all__ = ["in_threads"]

# A write of a test takes milliseconds. Some tests let a write hang for ever.
SECONDS_FOR_A_WRITE = 1.0


@pytest.fixture(autouse=True)
def beats_that_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At the end of a test, stop the heartbeats that it has started.

    Otherwise dozens of these fast heartbeats would still run during later tests.
    """
    begun, beat = list[Lease](), Lease.beat

    def noted(lease: Lease) -> None:
        begun.append(lease)
        beat(lease)

    monkeypatch.setattr(Lease, "beat", noted)
    yield
    for lease in begun:
        lease._ended.set()


@pytest.fixture(autouse=True)
def writers_that_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """At the end of a test, stop the writers that it has started, and wait for their last write.

    Otherwise they would still write, or retry, while later tests patch the functions that they call.
    """
    begun, original = list[Writer](), Writer.__init__

    def noted(writer: Writer, *arguments: Any, **named: Any) -> None:
        original(writer, *arguments, **named)
        begun.append(writer)

    monkeypatch.setattr(Writer, "__init__", noted)
    yield
    for each in begun:
        with each._change:
            each._is_closed = True
            each._change.notify_all()
    for each in begun:
        each._thread.join(SECONDS_FOR_A_WRITE)


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SECONDS_BETWEEN_BEATS", 0.05)
    monkeypatch.setattr(leases, "SECONDS_BETWEEN_CHECKS", 0.02)


@pytest.fixture
def without_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the heartbeats of all holders of HEAD, as if their processes had ended."""
    monkeypatch.setattr(heads, "SECONDS_BETWEEN_BEATS", 3600)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.04)
    disk = Disk(tmp_path, monkeypatch)
    yield disk
    disk.may_go_on.set()
