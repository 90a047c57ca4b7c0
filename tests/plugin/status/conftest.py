"""Define the fixtures of the tests of `status`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Outcome, Run, called
from tests.plugin.status.runs import serve


@pytest.fixture
def status(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `distrain status` with these arguments against the fake API."""
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    serve(api)

    def run(*arguments: str) -> Outcome:
        return called(capsys, "status", *arguments)

    return run
