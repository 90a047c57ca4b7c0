"""Insert credentials of every kind at every place of every format.

No credential may reach stdout, stderr or the values file.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distrain import redact
from tests.plugin.imports.hostile.secrets import MARK, SOURCES
from tests.plugin.program import Run


@pytest.fixture
def helm(helm4: Path) -> Path:
    """Use only one version of Helm, because `import` needs Helm only to render the chart."""
    return helm4


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off the console's own hiding of credentials, because the import itself must remove them."""
    monkeypatch.setattr(redact, "_known", set())
    monkeypatch.setattr("distrain.imports.credentials.remember", lambda secret: None)


@pytest.mark.parametrize("place", SOURCES)
def test_no_credential_is_shown_or_written(run: Run, tmp_path: Path, place: str) -> None:
    source, target = tmp_path / "source", tmp_path / "run.yaml"
    source.write_text(SOURCES[place]())

    outcome = run("import", str(source), "-o", str(target))

    assert outcome.code == 0, outcome.err
    shown = outcome.out + outcome.err + target.read_text()
    assert re.findall(rf".{{0,60}}{MARK}.{{0,20}}", shown) == []
