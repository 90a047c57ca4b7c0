"""Define the fixtures of the tests of `predict`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.predict.asking import EPOCHS, OWN, PRICES, TEST, VALUES, Predict
from tests.plugin.program import Outcome, called


@pytest.fixture
def predict(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Predict:
    """Return a function that runs `predict` in a folder with values, prices and the output of `helm test`."""
    monkeypatch.setenv("HELM_BIN", str(helm4))
    monkeypatch.chdir(tmp_path)
    files = {"run.yaml": VALUES, "own.yaml": OWN, "epochs.yaml": EPOCHS, "prices": PRICES, "test.log": TEST}
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def run(*arguments: str, values: str = "run.yaml") -> Outcome:
        return called(capsys, "predict", "-f", values, *arguments)

    return run
