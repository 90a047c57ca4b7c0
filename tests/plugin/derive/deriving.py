"""Run `derive` as a user does, with the values as text or as a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.plugin.program import Outcome, called

GOLDEN = REPOSITORY / "tests" / "plugin" / "golden"
Derive = Callable[..., Outcome]


def deriver(helm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Derive:
    monkeypatch.setenv("HELM_BIN", str(helm))

    def run(values: str | Path, *arguments: str) -> Outcome:
        content = values.read_bytes() if isinstance(values, Path) else values.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return called(capsys, "derive", "-f", "-", *arguments)

    return run
