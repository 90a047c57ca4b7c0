"""Define the fixtures of derive's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.builds import golang
from tests.plugin.derive.deriving import Derive, deriver


@pytest.fixture
def derive(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Derive:
    """Return a function that runs `derive` under Helm 4, with the values as text or as a file."""
    return deriver(golang.binary("helm4"), monkeypatch, capsys)


@pytest.fixture
def derive_with_each(helm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Derive:
    return deriver(helm, monkeypatch, capsys)
