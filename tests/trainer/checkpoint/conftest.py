"""Provide fixtures for the tests of checkpoints: a failing disk, and faster heartbeats in HEAD."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distrain_trainer.checkpoint import head as heads
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint import writer
from tests.trainer.fixtures.disk import Disk, let_go
from tests.trainer.fixtures.ranks import in_threads

__all__ = ["in_threads"]


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


@pytest.fixture
def hangs_end(tmp_path: Path) -> Iterator[None]:
    """After a test whose calls hang, let them return, so that their threads end."""
    yield
    let_go(tmp_path)
