"""Fixtures of the checkpoints' tests: how often a holder renews its heartbeat in HEAD."""

from __future__ import annotations

import pytest

from distrain_trainer.checkpoint import head as heads
from distrain_trainer.checkpoint import lease as leases


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SECONDS_BETWEEN_BEATS", 0.05)
    monkeypatch.setattr(leases, "SECONDS_BETWEEN_CHECKS", 0.02)


@pytest.fixture
def without_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the heartbeats of all holders, as if their processes had ended."""
    monkeypatch.setattr(heads, "SECONDS_BETWEEN_BEATS", 3600)
