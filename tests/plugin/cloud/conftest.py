"""Define the fixtures of the tests of `cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.cloud.making import Make
from tests.plugin.program import Outcome, called


@pytest.fixture
def make(helm4: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Make:
    """Return a function that runs `cluster` under Helm 4 in an empty folder, with the values as text."""
    monkeypatch.setenv("HELM_BIN", str(helm4))
    monkeypatch.chdir(tmp_path)

    def run(values: str, *arguments: str) -> Outcome:
        (tmp_path / "run.yaml").write_text(values)
        return called(capsys, "cluster", "-f", "run.yaml", *arguments)

    return run
