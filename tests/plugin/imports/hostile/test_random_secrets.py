"""Insert random credentials into random sources. No credential may reach stdout, stderr or the values file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distrain import redact
from distrain.commands import import_
from tests.plugin.imports.drafts import accepting
from tests.plugin.imports.hostile.random_secrets import FORMATS, MARK, Planter
from tests.plugin.program import called

SEEDS = 25


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off the console's own hiding of credentials.

    The import assumes that the chart accepts all values, so these tests need no Helm.
    """
    monkeypatch.setattr(redact, "_known", set())
    monkeypatch.setattr("distrain.imports.credentials.remember", lambda secret: None)
    monkeypatch.setattr(import_, "find", lambda: None)
    monkeypatch.setattr(import_, "_judge", lambda *_: accepting)


@pytest.mark.parametrize("name", FORMATS)
def test_no_credential_is_shown_or_written(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    shown = {seed: _shown(capsys, tmp_path / str(seed), FORMATS[name](Planter(seed))) for seed in range(SEEDS)}

    assert all(shown.values())
    found = [(seed, re.findall(rf"(?i).{{0,60}}{MARK}.{{0,20}}", words)) for seed, words in shown.items()]
    assert [each for each in found if each[1]] == []


def _shown(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> str:
    """Import a source. Return everything that the import prints and writes."""
    folder.mkdir()
    source, target = folder / "source", folder / "run.yaml"
    source.write_text(text)
    outcome = called(capsys, "import", str(source), "-o", str(target))
    return outcome.out + outcome.err + (target.read_text() if target.exists() else "")
